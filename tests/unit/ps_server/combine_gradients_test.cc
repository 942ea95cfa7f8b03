// Combined gradients have the bits of sums that are taken one value after the other.
#include "ps_server/combine_gradients.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "tests/testing/ps_specs.h"

namespace coxswain::ps {
namespace {

using Kind = graph::Update::Kind;
using testing::Ids;
using testing::UpdateOf;
using testing::ValuesOf;

template <typename T>
Tensor Values(const std::vector<T>& values, const Shape& shape) {
  return Tensor::FromVector(values, shape).value();
}

template <typename T>
std::vector<T> Random(int64_t n, std::mt19937_64* random) {
  std::normal_distribution<double> normal;
  std::vector<T> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<T>(normal(*random)));
  return values;
}

std::vector<const graph::Update*> PointersTo(const std::vector<graph::Update>& updates) {
  std::vector<const graph::Update*> pointers;
  for (const graph::Update& update : updates) pointers.push_back(&update);
  return pointers;
}

// Ids of updates that share some, the update's own ones unique.
std::vector<int64_t> SomeIds(int64_t n, std::mt19937_64* random) {
  std::vector<int64_t> ids;
  for (int64_t id = 0; id < 2 * n; ++id) ids.push_back(id * id * 7919);
  std::shuffle(ids.begin(), ids.end(), *random);
  ids.resize(static_cast<size_t>(n));
  return ids;
}

template <typename T>
struct NaiveRows {
  std::vector<int64_t> ids;
  std::vector<T> values;
};

template <typename T>
NaiveRows<T> SumNaively(const std::vector<graph::Update>& updates, int64_t width, T divisor) {
  NaiveRows<T> naive;
  for (const graph::Update& update : updates) {
    const std::vector<int64_t> ids = ValuesOf<int64_t>(update.ids);
    const std::vector<T> values = ValuesOf<T>(update.values);
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto at = std::find(naive.ids.begin(), naive.ids.end(), ids[i]) - naive.ids.begin();
      if (at == static_cast<int64_t>(naive.ids.size())) {
        naive.ids.push_back(ids[i]);
        naive.values.resize(naive.values.size() + static_cast<size_t>(width), T{0});
      }
      for (int64_t e = 0; e < width; ++e) {
        naive.values[static_cast<size_t>(at * width + e)] +=
            values[i * static_cast<size_t>(width) + static_cast<size_t>(e)];
      }
    }
  }
  for (T& value : naive.values) value /= divisor;
  return naive;
}

template <typename T>
void CheckRows(int64_t width) {
  std::mt19937_64 random(static_cast<uint64_t>(width));
  for (const int64_t divisor : {1, 2, 3, 4, 7}) {
    std::vector<graph::Update> updates;
    for (const int64_t n : {300, 0, 1, 250, 300}) {
      updates.push_back(UpdateOf(Kind::kSparse, 1,
                                 Values(Random<T>(n * width, &random), Shape{n, width}),
                                 Ids(SomeIds(n, &random))));
    }
    const NaiveRows<T> wanted = SumNaively<T>(updates, width, static_cast<T>(divisor));
    const graph::Update sum = CombineGradients(PointersTo(updates), divisor);
    REQUIRE(ValuesOf<int64_t>(sum.ids) == wanted.ids);
    CHECK(ValuesOf<T>(sum.values) == wanted.values);
  }
}

TEST_CASE("rows have the bits of sums in the order of the closures", "[sync]") {
  for (const int64_t width : {1, 10, 64}) {
    CheckRows<float>(width);
    CheckRows<double>(width);
  }
}

TEST_CASE("dense gradients have the bits of sums in the order of the closures", "[sync]") {
  std::mt19937_64 random(1);
  for (const int64_t n : {1, 2048, 5000}) {
    for (const int64_t divisor : {1, 3, 4}) {
      std::vector<graph::Update> updates;
      std::vector<float> wanted(static_cast<size_t>(n), 0);
      for (int closure = 0; closure < 4; ++closure) {
        const std::vector<float> values = Random<float>(n, &random);
        for (size_t i = 0; i < values.size(); ++i) wanted[i] += values[i];
        updates.push_back(UpdateOf(Kind::kDense, 1, Values(values, Shape{n})));
      }
      for (float& value : wanted) value /= static_cast<float>(divisor);
      const graph::Update sum = CombineGradients(PointersTo(updates), divisor);
      CHECK(ValuesOf<float>(sum.values) == wanted);
    }
  }
}

}  // namespace
}  // namespace coxswain::ps
