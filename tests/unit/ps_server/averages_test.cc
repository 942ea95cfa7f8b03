// Moving averages of weights, against a plain loop.
#include "ps_server/averages.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/testing/hash_specs.h"
#include "tests/testing/ps_specs.h"
#include "tests/testing/shards.h"

namespace coxswain::ps {
namespace {

using Kind = graph::Update::Kind;
using testing::Apply;
using testing::AsFloats;
using testing::HashShardsOf;
using testing::HashTableOf;
using testing::Ids;
using testing::Make;
using testing::OptimizerOf;
using testing::RandomTensor;
using testing::UpdateOf;
using testing::VariableOf;
using testing::WholeOf;

constexpr int64_t kRows = 9, kDim = 5;
constexpr double kDecay = 0.75;

proto::OptimizerSpec Averaged(const std::string& kind, double decay = kDecay) {
  proto::OptimizerSpec spec = OptimizerOf(kind);
  spec.set_ema_decay(decay);
  return spec;
}

std::unique_ptr<Shard> MakeTable(const std::string& kind, bool hash, DType dtype) {
  proto::VariableSpec variable = hash ? HashTableOf("t", kDim, Averaged(kind))
                                      : VariableOf("t", {kRows, kDim}, true, Averaged(kind));
  variable.set_dtype(static_cast<int32_t>(dtype));
  variable.mutable_initializer()->set_kind("normal");
  variable.mutable_initializer()->set_seed(5);
  return Make(hash ? HashShardsOf(variable, 1)[0] : WholeOf(variable));
}

Tensor AllIds() {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < kRows; ++i) ids.push_back(i);
  return Ids(ids);
}

std::vector<float> Weights(const Shard& shard) { return AsFloats(shard.Gather(AllIds()).value()); }

std::vector<float> Averages(const Shard& shard) {
  return AsFloats(shard.GatherAverages(AllIds()).value());
}

void MoveRow(size_t row, const std::vector<float>& weights, std::vector<float>* averages) {
  for (size_t e = row * kDim; e < (row + 1) * kDim; ++e) {
    (*averages)[e] += static_cast<float>(1 - kDecay) * (weights[e] - (*averages)[e]);
  }
}

void CheckNear(const std::vector<float>& found, const std::vector<float>& wanted) {
  REQUIRE(found.size() == wanted.size());
  for (size_t i = 0; i < found.size(); ++i) CHECK(found[i] == Approx(wanted[i]).margin(1e-6));
}

TEST_CASE("averages of a table are those of a plain loop: named rows move, once an update",
          "[averages]") {
  for (const char* kind : {"sgd", "lazy_adam", "rowwise_adagrad", "adam"}) {
    for (const bool hash : {false, true}) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        CAPTURE(kind, hash, DTypeName(dtype));
        const auto shard = MakeTable(kind, hash, dtype);
        std::vector<float> wanted = Weights(*shard);
        CHECK(Averages(*shard) == wanted);
        std::mt19937 random(7);
        for (uint64_t step = 0; step < 20; ++step) {
          const int64_t a = random() % kRows, b = (a + 1 + random() % (kRows - 1)) % kRows;
          Apply(shard.get(),
                UpdateOf(Kind::kSparse, 1, RandomTensor(Shape{2, kDim}, step), Ids({a, b})));
          const std::vector<float> weights = Weights(*shard);
          for (int64_t row = 0; row < kRows; ++row) {
            // adam moves all rows; those without an update stay where they began.
            const bool moves = row == a || row == b || std::string(kind) == "adam";
            if (moves) MoveRow(static_cast<size_t>(row), weights, &wanted);
          }
          CheckNear(Averages(*shard), wanted);
        }
        CHECK(Averages(*shard) != Weights(*shard));
      }
    }
  }
}

TEST_CASE("averages move once where a segment has several updates of a row", "[averages]") {
  for (const bool hash : {false, true}) {
    CAPTURE(hash);
    const auto shard = MakeTable("sgd", hash, DType::kF32);
    std::vector<float> wanted = Weights(*shard);
    for (uint64_t step = 0; step < 3; ++step) {
      const graph::Update one =
          UpdateOf(Kind::kSparse, 1, RandomTensor(Shape{3, kDim}, step), Ids({1, 4, 7}));
      const graph::Update two =
          UpdateOf(Kind::kSparse, 1, RandomTensor(Shape{2, kDim}, 50 + step), Ids({7, 2}));
      REQUIRE(shard->Reserve(5).ok());
      const std::vector<const graph::Update*> both = {&one, &two};
      shard->ApplySegment(both, {});
      for (const size_t row : {1, 2, 4, 7}) MoveRow(row, Weights(*shard), &wanted);
      CheckNear(Averages(*shard), wanted);
    }
    CHECK(shard->applied() == 3);
    // The rows are known as changed by the last update, for deltas.
    const Tensor touched = shard->ReadRows(0, shard->rows(), shard->plan().Find("touched")).value();
    int changed = 0;
    for (const int64_t number : touched.values<int64_t>()) {
      CHECK((number == 0 || number == 3));
      changed += number == 3;
    }
    CHECK(changed == 4);
  }
}

TEST_CASE("averages of a dense variable move with each update, in its precision", "[averages]") {
  for (const char* kind : {"sgd", "adam", "rowwise_adagrad"}) {
    CAPTURE(kind);
    proto::VariableSpec variable = VariableOf("w", {2, 3}, false, Averaged(kind), DType::kF64);
    const auto shard = Make(WholeOf(variable));
    std::vector<double> wanted(6);
    for (int step = 0; step < 10; ++step) {
      std::vector<double> gradient;
      for (int i = 0; i < 6; ++i) gradient.push_back(std::sin(step + i));
      const Tensor held = shard->ReadAverages().value();
      const std::vector<double> before(held.values<double>().begin(), held.values<double>().end());
      Apply(shard.get(),
            UpdateOf(Kind::kDense, 1, Tensor::FromVector(gradient, Shape{2, 3}).value()));
      const Tensor weights = shard->Read().value();
      for (size_t i = 0; i < 6; ++i) wanted[i] += 0.25 * (weights.data<double>()[i] - wanted[i]);
      const Tensor found = shard->ReadAverages().value();
      for (size_t i = 0; i < 6; ++i) {
        CHECK(found.data<double>()[i] == Approx(wanted[i]).epsilon(1e-14));
      }
      // What was read does not change any more.
      CHECK(std::equal(before.begin(), before.end(), held.values<double>().begin()));
    }
  }
}

TEST_CASE("averages of what a program writes begin anew", "[averages]") {
  const auto shard = MakeTable("sgd", false, DType::kF32);
  Apply(shard.get(), UpdateOf(Kind::kSparse, 1, RandomTensor(Shape{2, kDim}, 1), Ids({3, 4})));
  const std::vector<float> before = Averages(*shard);
  REQUIRE(shard->WriteRows(3, RandomTensor(Shape{1, kDim}, 2)).ok());
  const std::vector<float> weights = Weights(*shard), after = Averages(*shard);
  for (size_t e = 0; e < after.size(); ++e) {
    CHECK(after[e] == (e / kDim == 3 ? weights[e] : before[e]));
  }
  const auto hash = MakeTable("sgd", true, DType::kBF16);
  Apply(hash.get(), UpdateOf(Kind::kSparse, 1, RandomTensor(Shape{2, kDim}, 1), Ids({3, 4})));
  REQUIRE(hash->WriteIds(Ids({4, 8}), RandomTensor(Shape{2, kDim}, 3)).ok());
  const std::vector<float> rows = Weights(*hash), averages = Averages(*hash);
  CHECK(std::vector<float>(rows.begin() + 4 * kDim, rows.end()) ==
        std::vector<float>(averages.begin() + 4 * kDim, averages.end()));
  const auto dense = Make(WholeOf(VariableOf("w", {3}, false, Averaged("sgd"))));
  Apply(dense.get(), UpdateOf(Kind::kDense, 1, RandomTensor(Shape{3}, 1)));
  CHECK(AsFloats(dense->ReadAverages().value()) != AsFloats(dense->Read().value()));
  Apply(dense.get(), UpdateOf(Kind::kAssign, 1, RandomTensor(Shape{3}, 2)));
  CHECK(AsFloats(dense->ReadAverages().value()) == AsFloats(dense->Read().value()));
}

TEST_CASE("a shard without averages reads its weights in their place", "[averages]") {
  const auto shard = Make(WholeOf(VariableOf("w", {3}, false, OptimizerOf("sgd"))));
  CHECK(shard->averages() == -1);
  Apply(shard.get(), UpdateOf(Kind::kDense, 1, RandomTensor(Shape{3}, 1)));
  CHECK(AsFloats(shard->ReadAverages().value()) == AsFloats(shard->Read().value()));
}

TEST_CASE("a decay that is none is refused", "[averages]") {
  for (const double decay : {-0.1, 1.0, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    const auto made = Shard::Create(WholeOf(VariableOf("w", {3}, false, Averaged("sgd", decay))));
    CHECK(absl::IsInvalidArgument(made.status()));
    CHECK_THAT(std::string(made.status().message()), Catch::Contains("ema_decay"));
  }
}

}  // namespace
}  // namespace coxswain::ps
