// The rows nearest to vectors are those that comparing with every row gives.
#include "coordinator/model/nearest.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "tests/testing/data_files.h"
#include "tests/testing/saved_models.h"

namespace coxswain::model {
namespace {

double Cosine(const float* a, const float* b, int64_t n) {
  double ab = 0, aa = 0, bb = 0;
  for (int64_t i = 0; i < n; ++i) {
    ab += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

SavedRows Saved(const DataFiles& files, const Tensor& values) {
  const std::string model = files.Path("model");
  WriteModel(model, {{"t", values, true}});
  auto source = SavedSource::OpenModel(model);
  REQUIRE(source.ok());
  auto rows = source->Open("t");
  REQUIRE(rows.ok());
  return *std::move(rows);
}

TEST_CASE("the nearest rows are those of a comparison with every row", "[nearest]") {
  const DataFiles files;
  constexpr int64_t kRows = 2500, kDim = 17;
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> values(kRows * kDim);
  for (float& v : values) v = normal(random);
  // Rows without a direction are no answer.
  std::fill_n(values.begin() + 5 * kDim, kDim, 0.0f);
  values[6 * kDim] = std::numeric_limits<float>::quiet_NaN();
  values[7 * kDim] = std::numeric_limits<float>::infinity();
  const SavedRows rows =
      Saved(files, Tensor::FromVector<float>(values, Shape{kRows, kDim}).value());

  std::vector<NearestQuery> queries;
  for (int64_t q = 0; q < 300; ++q) {
    const float* row = values.data() + (q * 7 + 8) * kDim;
    queries.push_back({std::vector<float>(row, row + kDim), {q * 7 + 8, 0}});
    for (float& v : queries.back().vector) v *= 1 + static_cast<float>(q);
  }
  queries.push_back({std::vector<float>(kDim, 0.0f), {}});
  for (int threads : {1, 3}) {
    const auto pool = env::NewComputePool(threads);
    const auto found = NearestRows(rows, queries, 10, pool.get());
    REQUIRE(found.ok());
    REQUIRE(found->size() == queries.size());
    CHECK(found->back().empty());
    for (size_t q = 0; q + 1 < queries.size(); ++q) {
      std::vector<std::pair<double, int64_t>> wanted;
      for (int64_t r = 1; r < kRows; ++r) {
        if (r == queries[q].exclude[0] || (r >= 5 && r <= 7)) continue;
        wanted.emplace_back(-Cosine(queries[q].vector.data(), &values[r * kDim], kDim), r);
      }
      std::partial_sort(wanted.begin(), wanted.begin() + 10, wanted.end());
      REQUIRE((*found)[q].size() == 10);
      for (size_t k = 0; k < 10; ++k) {
        REQUIRE((*found)[q][k].id == wanted[k].second);
        REQUIRE((*found)[q][k].cosine == Approx(-wanted[k].first).margin(1e-5));
      }
    }
  }
}

TEST_CASE("nearest rows end with the table, and refuse what fits it not", "[nearest]") {
  const DataFiles files;
  const SavedRows rows =
      Saved(files, Tensor::FromVector<float>({1, 0, 2, 0, 0, 3, -1, 0}, Shape{4, 2}).value());
  const auto pool = env::NewInlinePool();
  const auto all = NearestRows(rows, {{{1, 0}, {}}}, 100, pool.get());
  REQUIRE(all.ok());
  std::vector<int64_t> ids;
  for (const Neighbour& n : all->front()) ids.push_back(n.id);
  CHECK(ids == std::vector<int64_t>{0, 1, 2, 3});  // of the equal ones the lower id first
  CHECK(absl::IsInvalidArgument(NearestRows(rows, {{{1, 0, 0}, {}}}, 1, pool.get()).status()));
  CHECK(absl::IsInvalidArgument(NearestRows(rows, {{{1, 0}, {}}}, 0, pool.get()).status()));
}

}  // namespace
}  // namespace coxswain::model
