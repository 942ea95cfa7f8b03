// Clipped gradients: what they become does not depend on how tables lie on parameter servers.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "coordinator/api/variable_info.h"
#include "tests/testing/cluster.h"

namespace coxswain {
namespace {

using testing::Must;
using testing::MustStart;
using testing::ToVector;
using By = GradientClip::By;

struct Moved {
  std::vector<float> table;   // 4 rows of 1, by row
  std::vector<float> weight;  // 2 numbers
};

// One step of SGD with rate 1, from zeros: what moves is minus the gradient. Of the table row 1 has
// the gradient 6 (of two lookups, 2 and 4), row 2 -3 and row 3 none; the weights -2 and 0.5.
Moved Step(GradientClip clip, int ps, int shards, DType wire = DType::kF32) {
  ParameterServerStrategy strategy(MustStart(ps, 1));
  TableOptions rows;
  rows.rows = 4;
  rows.dim = 1;
  rows.initializer = Zeros();
  rows.optimizer = Sgd{.learning_rate = 1};
  rows.partitioner = FixedShards(shards);
  rows.wire_dtype = wire;
  const EmbeddingTable table = Must(strategy.CreateTable("table", rows));
  VariableOptions numbers;
  numbers.shape = Shape{2};
  numbers.initializer = Zeros();
  numbers.optimizer = Sgd{.learning_rate = 1};
  const Variable weight = Must(strategy.CreateVariable("weight", numbers));
  const RemoteFunction step = Must(strategy.Define("step", [&](FunctionBuilder& f) {
    const auto ids = [&](std::vector<int64_t> list) {
      return f.Constant(Tensor::FromVector(list));
    };
    const auto times = [&](Output x, std::vector<float> factors) {
      return f.Sum(f.Mul(f.Reshape(x, {-1}), f.Constant(Tensor::FromVector(factors))));
    };
    const Output first = f.Lookup(table, ids({1, 2})), second = f.Lookup(table, ids({1}));
    f.Minimize(f.Op("AddN",
                    {times(first, {2, -3}), times(second, {4}), times(f.Read(weight), {-2, 0.5f})}),
               clip);
  }));
  ClusterCoordinator coordinator(strategy);
  coordinator.Schedule(step);
  Must(coordinator.Join());
  Moved moved;
  moved.table.resize(4);
  for (size_t s = 0; s < table.info().shards.size(); ++s) {
    const int64_t count = table.info().shards[s].rows();
    const auto values =
        ToVector<float>(Must(strategy.ReadShard(table.info(), static_cast<int>(s), 0, count)));
    for (int64_t r = 0; r < count; ++r) {
      moved.table[static_cast<size_t>(table.info().GlobalRow(static_cast<int>(s), r))] =
          values[static_cast<size_t>(r)];
    }
  }
  moved.weight = ToVector<float>(Must(strategy.ReadShard(weight.info(), 0, 0, 2)));
  return moved;
}

void CheckMoved(const Moved& moved, const std::vector<double>& table,
                const std::vector<double>& weight, double epsilon = 1e-5) {
  for (size_t i = 0; i < 4; ++i) CHECK(moved.table[i] == Approx(table[i]).epsilon(epsilon));
  for (size_t i = 0; i < 2; ++i) CHECK(moved.weight[i] == Approx(weight[i]).epsilon(epsilon));
}

TEST_CASE("gradients are clipped alike however tables are cut into shards", "[api]") {
  const double rows = std::sqrt(45), all = std::sqrt(45 + 4.25);
  for (const auto& [ps, shards] : {std::pair{1, 1}, std::pair{2, 2}, std::pair{2, 3}}) {
    INFO(ps << " PS, " << shards << " shards");
    CheckMoved(Step({}, ps, shards), {0, -6, 3, 0}, {2, -0.5});
    CheckMoved(Step({By::kValue, 1.5f}, ps, shards), {0, -1.5, 1.5, 0}, {1.5, -0.5});
    // The weights' norm, 2.06, is below the limit.
    CheckMoved(Step({By::kNorm, 3}, ps, shards), {0, -18 / rows, 9 / rows, 0}, {2, -0.5});
    CheckMoved(Step({By::kGlobalNorm, 3}, ps, shards), {0, -18 / all, 9 / all, 0},
               {6 / all, -1.5 / all});
    CheckMoved(Step({By::kGlobalNorm, 100}, ps, shards), {0, -6, 3, 0}, {2, -0.5});
    CheckMoved(Step({By::kGlobalNorm, 3}, ps, shards, DType::kBF16), {0, -18 / all, 9 / all, 0},
               {6 / all, -1.5 / all}, 0.01);
  }
}

TEST_CASE("a gradient whose norm is too large for a float is an error, and no update", "[api]") {
  ParameterServerStrategy strategy(MustStart(1, 1));
  VariableOptions options;
  options.shape = Shape{2};
  options.initializer = Zeros();
  options.optimizer = Sgd{.learning_rate = 1};
  const Variable w = Must(strategy.CreateVariable("w", options));
  const By by = GENERATE(By::kNorm, By::kGlobalNorm);
  const RemoteFunction step = Must(strategy.Define("step", [&](FunctionBuilder& f) {
    f.Minimize(f.Sum(f.Mul(f.Read(w), f.Scalar(1e25f))), {by, 1});
  }));
  ClusterCoordinator coordinator(strategy);
  coordinator.Schedule(step);
  const absl::Status ended = coordinator.Join();
  CHECK(ended.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(ended.message(), by == By::kNorm
                                               ? "the gradient of variable 'w' is infinite"
                                               : "'(the norm of all of them)' is infinite"));
  CHECK(ToVector<float>(Must(strategy.ReadShard(w.info(), 0, 0, 2))) == std::vector<float>{0, 0});
}

// One step of SGD with rate 1 from zeros: minus the gradients of two variables, the second one in
// f64.
std::pair<std::vector<float>, std::vector<double>> StepInBoth(GradientClip clip, float narrow,
                                                              double wide) {
  ParameterServerStrategy strategy(MustStart(1, 1));
  VariableOptions options;
  options.shape = Shape{1};
  options.initializer = Zeros();
  options.optimizer = Sgd{.learning_rate = 1};
  const Variable one = Must(strategy.CreateVariable("one", options));
  options.dtype = DType::kF64;
  const Variable two = Must(strategy.CreateVariable("two", options));
  const RemoteFunction step = Must(strategy.Define("step", [&](FunctionBuilder& f) {
    const Output of_two = f.Mul(f.Read(two), f.Constant(Tensor::Scalar<double>(wide)));
    const Output of_one = f.Cast(f.Mul(f.Read(one), f.Scalar(narrow)), DType::kF64);
    f.Minimize(f.Sum(f.Add(of_one, of_two)), clip);
  }));
  ClusterCoordinator coordinator(strategy);
  coordinator.Schedule(step);
  Must(coordinator.Join());
  return {ToVector<float>(Must(strategy.ReadShard(one.info(), 0, 0, 1))),
          ToVector<double>(Must(strategy.ReadShard(two.info(), 0, 0, 1)))};
}

TEST_CASE("a gradient of f64 is clipped in f64, and stays as it is where nothing is clipped",
          "[api]") {
  const double fine = 1 + 1e-12;  // not a float
  for (const By by : {By::kNorm, By::kGlobalNorm, By::kValue}) {
    const auto [one, two] = StepInBoth({by, 10}, 3, fine);
    CHECK(one == std::vector<float>{-3});
    CHECK(two == std::vector<double>{-fine});
  }
  const auto by_value = StepInBoth({By::kValue, 1}, 3, -2 * fine);
  CHECK(by_value.first == std::vector<float>{-1});
  CHECK(by_value.second == std::vector<double>{1});
  const auto by_norm = StepInBoth({By::kNorm, 2}, 3, 4 * fine);
  CHECK(by_norm.first == std::vector<float>{-2});
  CHECK(by_norm.second[0] == Approx(-2).epsilon(1e-15));
  const double norm = std::sqrt(9 + 16 * fine * fine);
  const auto all = StepInBoth({By::kGlobalNorm, 1}, 3, 4 * fine);
  CHECK(all.first[0] == Approx(-3 / norm));
  CHECK(all.second[0] == Approx(-4 * fine / norm).epsilon(1e-15));
}

TEST_CASE("a gradient that is made on parameter servers cannot be clipped, and says so", "[api]") {
  ParameterServerStrategy strategy(MustStart(1, 1));
  VariableOptions options;
  options.shape = Shape{3, 2};
  options.optimizer = Sgd{.learning_rate = 1};
  const Variable w = Must(strategy.CreateVariable("w", options));
  const auto step = strategy.Define("step", [&](FunctionBuilder& f) {
    const Output x = f.Constant(Tensor::FromVector<float>({1, 2, 3}, Shape{1, 3}).value());
    f.Minimize(f.Sum(f.MatMul(x, w)), {By::kGlobalNorm, 1});
  });
  CHECK(step.status().code() == absl::StatusCode::kUnimplemented);
  CHECK(absl::StrContains(step.status().message(), "the gradient of 'w' is made on parameter"));
}

TEST_CASE("a limit to clip by that is none is refused", "[api]") {
  for (const By by : {By::kValue, By::kNorm, By::kGlobalNorm}) {
    for (const float limit : {0.0f, -1.0f, INFINITY, NAN}) {
      ParameterServerStrategy strategy(MustStart(1, 1));
      VariableOptions options;
      options.optimizer = Sgd{.learning_rate = 1};
      const Variable weight = Must(strategy.CreateVariable("weight", options));
      const auto step = strategy.Define("step", [&](FunctionBuilder& f) {
        f.Minimize(f.Read(weight), {.by = by, .limit = limit});
      });
      CHECK(absl::StrContains(step.status().message(), "wanted a finite limit > 0 to clip by"));
    }
  }
}

}  // namespace
}  // namespace coxswain
