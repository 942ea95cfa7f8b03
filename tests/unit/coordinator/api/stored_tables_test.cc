// How tables are stored and how their learning rate changes, through the public interface.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tests/testing/cluster.h"

namespace coxswain {
namespace {

using testing::Floats;
using testing::Must;
using testing::MustStart;
using testing::ToVector;

std::vector<float> Nearest(std::vector<float> values) {
  for (float& v : values) v = BFloat16::FromFloat(v).ToFloat();
  return values;
}

TEST_CASE("a bf16 table gives and takes f32, and trains with the optimizer it is given", "[api]") {
  Cluster cluster = MustStart(2, 1);
  ParameterServerStrategy strategy(cluster);
  ClusterCoordinator coordinator(strategy);
  TableOptions options;
  options.rows = 7;
  options.dim = 3;
  options.dtype = DType::kBF16;
  options.rounding = Rounding::kNearest;
  options.optimizer =
      WithSchedule(Sgd{.learning_rate = 2}, WarmUp(2, PiecewiseConstant({0}, {0.25}), 0.5));
  const EmbeddingTable table = Must(strategy.CreateTable("t", options));

  std::vector<float> values(21);
  for (size_t i = 0; i < 21; ++i) values[i] = 0.1f * static_cast<float>(i) - 1;
  Must(strategy.Assign(table, Tensor::FromVector(values, Shape{7, 3}).value()));
  const Tensor whole = Must(strategy.Read(table));
  REQUIRE(whole.dtype() == DType::kF32);
  CHECK(ToVector<float>(whole) == Nearest(values));
  CHECK_FALSE(strategy.Assign(table, Tensor::Zeros(DType::kF64, Shape{7, 3})).ok());

  const RemoteFunction step = Must(strategy.Define("step", [&](FunctionBuilder& g) {
    const Output rows = g.Lookup(table, g.Argument("ids", DType::kI64, Shape{kUnknownDim}));
    const Output loss = g.Sum(rows);  // the gradient of each element is 1
    g.Minimize(loss);
    g.Result("rows", rows);
  }));
  // Rates 2 * (0.5, 0.75, 1, 0.25, 0.25): warm-up of two steps, then the boundary.
  std::vector<float> row = Nearest({values[12], values[13], values[14]});
  for (const float rate : {1.f, 1.5f, 2.f, 0.5f, 0.5f}) {
    const auto results = Must(coordinator.Schedule(step, {Tensor::FromVector<int64_t>({4})}).Get());
    CHECK(ToVector<float>(results[0]) == row);
    for (float& w : row) w = BFloat16::FromFloat(w - rate).ToFloat();
  }
  Must(coordinator.Join());
  const std::vector<float> after = ToVector<float>(Must(strategy.Read(table)));
  CHECK(std::vector<float>(after.begin() + 12, after.begin() + 15) == row);
  CHECK(std::vector<float>(after.begin(), after.begin() + 12) ==
        Nearest({values.begin(), values.begin() + 12}));
}

TEST_CASE("an initializer of nothing but 0 gives zeros, and not its default", "[api]") {
  ParameterServerStrategy strategy(MustStart(1, 1));
  const auto rows_of = [&](const char* name, const InitializerSpec& initializer) {
    return ToVector<float>(Must(strategy.Read(
        Must(strategy.CreateTable(name, {.rows = 3, .dim = 2, .initializer = initializer})))));
  };
  CHECK(rows_of("normal", NormalInit(0)) == std::vector<float>(6, 0));
  CHECK(rows_of("uniform", UniformInit(0, 0)) == std::vector<float>(6, 0));
}

// Two look-ups of one table in a step, so that their gradients meet in one update.
std::vector<float> TrainedRows(DType wire, int shards) {
  Cluster cluster = MustStart(2, 1);
  ParameterServerStrategy strategy(cluster);
  ClusterCoordinator coordinator(strategy);
  TableOptions options;
  options.rows = 7;
  options.dim = 3;
  options.wire_dtype = wire;
  options.partitioner = FixedShards(shards);
  options.optimizer = Sgd{.learning_rate = 0.1};
  const EmbeddingTable table = Must(strategy.CreateTable("t", options));
  std::vector<float> values(21);
  for (size_t i = 0; i < 21; ++i) values[i] = 0.1f * static_cast<float>(i) - 1;
  Must(strategy.Assign(table, Tensor::FromVector(values, Shape{7, 3}).value()));
  const RemoteFunction step = Must(strategy.Define("step", [&](FunctionBuilder& g) {
    const Output ids = g.Argument("ids", DType::kI64, Shape{kUnknownDim});
    const Output once = g.Lookup(table, ids), twice = g.Lookup(table, ids);
    g.Minimize(g.Sum(g.Add(g.Square(once), twice)));  // the gradient of each element: 2 w + 1
  }));
  Must(coordinator.Schedule(step, {Tensor::FromVector<int64_t>({4, 5, 4})}).Get());
  Must(coordinator.Join());
  return ToVector<float>(Must(strategy.Read(table)));
}

TEST_CASE("rows that travel in bf16 train as those in f32, but for the rounding on the way",
          "[api]") {
  for (const int shards : {1, 3}) {
    const std::vector<float> f32 = TrainedRows(DType::kF32, shards);
    const std::vector<float> bf16 = TrainedRows(DType::kBF16, shards);
    for (size_t i = 0; i < 21; ++i) {
      const float was = 0.1f * static_cast<float>(i) - 1, moved = f32[i] - was;
      CAPTURE(shards, i, was, f32[i], bf16[i]);
      if (i < 12 || i >= 18) {
        CHECK(moved == 0);
        CHECK(bf16[i] == was);
      } else {
        CHECK(moved != 0);
        // Two roundings of 2^-9 each, of the row and of its gradient.
        CHECK(std::abs(bf16[i] - f32[i]) <= 0.02f * std::abs(was) * 0.1f + 0.01f * std::abs(moved));
      }
    }
  }
}

// A step of a variable that is read whole, and multiplied on its PS if it is asked for.
std::vector<float> TrainedVariable(DType wire, bool product) {
  Cluster cluster = MustStart(2, 1);
  ParameterServerStrategy strategy(cluster);
  ClusterCoordinator coordinator(strategy);
  VariableOptions options;
  options.shape = Shape{7, 3};
  options.wire_dtype = wire;
  options.partitioner = FixedShards(2);
  options.initializer = UniformInit(-1, 1, 5);
  options.optimizer = Sgd{.learning_rate = 0.1};
  const Variable w = Must(strategy.CreateVariable("w", options));
  const RemoteFunction step = Must(strategy.Define("step", [&](FunctionBuilder& g) {
    Output loss = g.Sum(g.Square(g.Read(w)));
    if (product) {
      const Output x =
          g.Constant(Tensor::FromVector(std::vector<float>(7, 1), Shape{1, 7}).value());
      loss = g.Add(loss, g.Sum(g.MatMul(x, w)));
    }
    g.Minimize(loss);
  }));
  Must(coordinator.Schedule(step).Get());
  Must(coordinator.Join());
  return ToVector<float>(Must(strategy.Read(w)));
}

TEST_CASE("variables that travel in bf16 train as those in f32, but for the rounding on the way",
          "[api]") {
  for (const bool product : {false, true}) {
    const std::vector<float> f32 = TrainedVariable(DType::kF32, product);
    const std::vector<float> bf16 = TrainedVariable(DType::kBF16, product);
    CHECK(f32 != bf16);
    for (size_t i = 0; i < f32.size(); ++i) {
      CAPTURE(product, i);
      // Two roundings of 2^-9 each, of the value and of its gradient; a step is 0.1 of it.
      CHECK(std::abs(bf16[i] - f32[i]) <= 0.001f);
    }
  }
}

TEST_CASE("only variables in f32 travel in bf16", "[api]") {
  Cluster cluster = MustStart(1, 1);
  ParameterServerStrategy strategy(cluster);
  const auto error = [&](DType dtype, DType wire) {
    VariableOptions options;
    options.shape = Shape{3};
    options.dtype = dtype;
    options.wire_dtype = wire;
    return std::string(strategy.CreateVariable("v", options).status().message());
  };
  using Catch::Contains;
  CHECK_THAT(error(DType::kF64, DType::kBF16), Contains("bf16 for one in f64"));
  CHECK_THAT(error(DType::kF32, DType::kI64), Contains("i64 for one in f32"));
}

TEST_CASE("what a table cannot be is told when it is made", "[api]") {
  Cluster cluster = MustStart(1, 1);
  ParameterServerStrategy strategy(cluster);
  const auto error = [&](auto&& change) {
    TableOptions options;
    options.rows = 3;
    options.dim = 2;
    change(&options);
    const auto table = strategy.CreateTable("t", options);
    REQUIRE_FALSE(table.ok());
    return std::string(table.status().message());
  };
  using Catch::Contains;
  CHECK_THAT(error([](TableOptions* o) { o->dtype = DType::kF64; }), Contains("f64"));
  CHECK_THAT(error([](TableOptions* o) { o->rounding = Rounding::kStochastic; }), Contains("bf16"));
  CHECK_THAT(error([](TableOptions* o) { o->wire_dtype = DType::kI64; }), Contains("travel"));
  CHECK_THAT(error([](TableOptions* o) {
               o->optimizer = WithSchedule(Sgd{.learning_rate = 1}, LinearDecay(9, -1));
             }),
             Contains("end_factor"));
  CHECK_THAT(error([](TableOptions* o) {
               o->optimizer = WithSchedule(Sgd{.learning_rate = 1}, CosineDecay(0));
             }),
             Contains("decay_steps"));
}

}  // namespace
}  // namespace coxswain
