// Gradients that pass through the program's hands on their way to the optimizers.
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "coordinator/api/variable_info.h"
#include "tests/testing/cluster.h"

namespace coxswain {
namespace {

using testing::Floats;
using testing::Must;
using testing::MustStart;
using testing::ToVector;

struct Model {
  Model(int ps, int shards, Sharding sharding = Sharding::kMod, DType wire = DType::kF32)
      : strategy(MustStart(ps, 1)) {
    TableOptions rows;
    rows.rows = 5;
    rows.dim = 2;
    rows.optimizer = Sgd{.learning_rate = 1};
    rows.partitioner = FixedShards(shards);
    rows.sharding = sharding;
    rows.wire_dtype = wire;
    table = Must(strategy.CreateTable("table", rows));
    VariableOptions numbers;
    numbers.shape = Shape{3};
    numbers.optimizer = Sgd{.learning_rate = 1};
    numbers.partitioner = FixedShards(shards);
    numbers.wire_dtype = wire;
    weight = Must(strategy.CreateVariable("weight", numbers));
    numbers.shape = Shape{};
    numbers.optimizer = {};
    numbers.wire_dtype = DType::kF32;
    fixed = Must(strategy.CreateVariable("fixed", numbers));
  }
  static Output Ids(FunctionBuilder& f, std::vector<int64_t> ids) {
    return f.Constant(Tensor::FromVector(ids));
  }
  // Its gradients: of the table's rows 1 (2, 2) + (4, 4) by two lookups, 2 and 4 (-3, -3); of the
  // weights (1, 2, 3).
  Output Loss(FunctionBuilder& f) const {
    const auto times = [&](Output x, std::vector<float> factors) {
      return f.Sum(f.Mul(f.Sum(x, {1}), f.Constant(Floats(factors))));
    };
    const Output weights = f.Mul(f.Read(weight), f.Constant(Floats({1, 2, 3})));
    return f.Op("AddN", {times(f.Lookup(table, Ids(f, {1, 2, 4})), {2, -3, -3}),
                         times(f.Lookup(table, Ids(f, {1})), {4}), f.Sum(weights), f.Read(fixed)});
  }
  absl::Status Run(const std::function<void(FunctionBuilder&)>& build) {
    auto step = strategy.Define("step", build);
    if (!step.ok()) return step.status();
    ClusterCoordinator coordinator(strategy);
    coordinator.Schedule(*step);
    return coordinator.Join();
  }
  std::vector<float> Rows() { return ToVector<float>(Must(strategy.Read(table))); }
  std::vector<float> Weights() { return ToVector<float>(Must(strategy.Read(weight))); }

  ParameterServerStrategy strategy;
  EmbeddingTable table;
  Variable weight, fixed;
};

using Floats2 = std::vector<float>;

TEST_CASE("gradients that the program gives back unchanged are what Minimize sends", "[api]") {
  for (const auto& [ps, shards] : {std::pair{1, 1}, std::pair{2, 2}, std::pair{2, 3}}) {
    for (const Sharding sharding : {Sharding::kMod, Sharding::kDiv, Sharding::kHash}) {
      for (const DType wire : {DType::kF32, DType::kBF16}) {
        INFO(ps << " PS, " << shards << " shards, by " << static_cast<int>(sharding));
        Model minimized(ps, shards, sharding, wire), applied(ps, shards, sharding, wire);
        Must(minimized.Run([&](FunctionBuilder& f) { f.Minimize(minimized.Loss(f)); }));
        Must(applied.Run(
            [&](FunctionBuilder& f) { f.ApplyGradients(f.Gradients(applied.Loss(f))); }));
        CHECK(minimized.Rows() == Floats2{0, 0, -6, -6, 3, 3, 0, 0, 3, 3});
        CHECK(applied.Rows() == minimized.Rows());
        CHECK(minimized.Weights() == Floats2{-1, -2, -3});
        CHECK(applied.Weights() == minimized.Weights());
      }
    }
  }
}

TEST_CASE("a program clips and masks gradients, of shards and of single rows", "[api]") {
  for (const Sharding sharding : {Sharding::kMod, Sharding::kDiv}) {
    for (const int shards : {1, 2, 3}) {
      Model m(2, shards, sharding);
      Must(m.Run([&](FunctionBuilder& f) {
        std::vector<VariableGradient> gradients = f.Gradients(m.Loss(f));
        for (VariableGradient& g : gradients) {
          if (g.variable == "weight") {
            g.values = f.Op("Minimum", {g.values, f.Scalar(2)});
            continue;
          }
          // Row 2 stays as it is.
          const Output others = f.Cast(
              f.Op("NotEqual", {g.ids, f.Constant(Tensor::Scalar<int64_t>(2))}), DType::kF32);
          g.values = f.Mul(g.values, f.Reshape(others, {-1, 1}));
        }
        f.ApplyGradients(gradients);
      }));
      CHECK(m.Weights() == Floats2{-1, -2, -2});
      CHECK(m.Rows() == Floats2{0, 0, -6, -6, 0, 0, 0, 0, 3, 3});
    }
  }
}

TEST_CASE("gradients of a program's own are applied, those of rows by their ids", "[api]") {
  for (const Sharding sharding : {Sharding::kMod, Sharding::kDiv, Sharding::kHash}) {
    for (const int shards : {1, 3}) {
      Model m(2, shards, sharding);
      Must(m.Run([&](FunctionBuilder& f) {
        const Tensor rows =
            Tensor::FromVector<float>({1, 2, 3, 4, 5, 6, 7, 8}, Shape{2, 2, 2}).value();
        const Tensor ids = Tensor::FromVector<int64_t>({3, 0, 3, 4}, Shape{2, 2}).value();
        f.ApplyGradients({{m.weight, f.Constant(Floats({-1, 0, 1}))},
                          {m.table, f.Constant(ids), f.Constant(rows)}});
      }));
      CHECK(m.Weights() == Floats2{1, 0, -1});
      CHECK(m.Rows() == Floats2{-3, -4, 0, 0, 0, 0, -6, -8, -7, -8});
    }
  }
}

TEST_CASE("rows whose ids the program has changed go where these ids are", "[api]") {
  for (const Sharding sharding : {Sharding::kMod, Sharding::kHash}) {
    for (const int shards : {1, 2}) {
      Model m(2, shards, sharding);
      Must(m.Run([&](FunctionBuilder& f) {
        VariableGradient g;
        for (VariableGradient& each : f.Gradients(m.Loss(f))) {
          if (each.variable == "table") g = each;
        }
        // Fewer rows than were looked up, and another one.
        g.ids = Model::Ids(f, {1, 3});
        g.values = f.Gather(g.values, f.Constant(Tensor::FromVector<int64_t>({0, 0})));
        f.ApplyGradients({g});
      }));
      const Floats2 rows = m.Rows();
      CHECK(rows[2] != 0);
      CHECK(rows[6] == rows[2]);
      CHECK(rows[4] == 0);
      CHECK(rows[8] == 0);
    }
  }
}

TEST_CASE("gradients that cannot be had or applied are refused by name", "[api]") {
  Model m(2, 2);
  const auto error = [&](const std::function<void(FunctionBuilder&)>& build) {
    const absl::Status status = m.Run(build);
    CHECK_FALSE(status.ok());
    return std::string(status.message());
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(error([&](FunctionBuilder& f) { f.Gradients(f.Read(m.fixed)); }),
             Contains("depends on no variable or table that has an optimizer"));
  CHECK_THAT(error([&](FunctionBuilder& f) {
               f.ApplyGradients({{m.fixed, f.Scalar(1)}});
             }),
             Contains("'fixed' has no optimizer"));
  CHECK_THAT(error([&](FunctionBuilder& f) {
               f.ApplyGradients({{m.weight, f.Constant(Floats({1, 2}))}});
             }),
             Contains("'weight' wants a gradient f32[3], found f32[2]"));
  CHECK_THAT(error([&](FunctionBuilder& f) {
               const VariableGradient g(m.weight, f.Constant(Floats({1, 2, 3})));
               f.ApplyGradients({g, g});
             }),
             Contains("'weight' is there twice"));
  CHECK_THAT(error([&](FunctionBuilder& f) {
               std::vector<VariableGradient> gradients = f.Gradients(m.Loss(f));
               for (VariableGradient& g : gradients) g.ids = {};
               f.ApplyGradients(gradients);
             }),
             Contains("'table' has rows without ids"));
  CHECK_THAT(error([&](FunctionBuilder& f) { f.ApplyGradients({VariableGradient()}); }),
             Contains("has no gradient"));
  CHECK_THAT(error([&](FunctionBuilder& f) { f.Gradients(f.Sum(f.Read(m.table))); }),
             Contains("that of 'table' is of a whole table"));
  const Tensor row = Tensor::FromVector<float>({1, 2, 3}, Shape{1, 3}).value();
  CHECK_THAT(error([&](FunctionBuilder& f) {
               const Output x = f.Reshape(f.Constant(row), {3, 1});
               f.Gradients(f.Sum(f.MatMul(f.Concat({x, x}, 1), m.table, true)));
             }),
             Contains("'table' is made on parameter servers"));
}

TEST_CASE("a gradient that is not finite after the program's change names its variable", "[api]") {
  Model m(1, 1);
  const absl::Status status = m.Run([&](FunctionBuilder& f) {
    std::vector<VariableGradient> gradients = f.Gradients(m.Loss(f));
    for (VariableGradient& g : gradients) g.values = f.Div(g.values, f.Scalar(0));
    f.ApplyGradients(gradients);
  });
  CHECK_FALSE(status.ok());
  CHECK((absl::StrContains(status.message(), "'table'") ||
         absl::StrContains(status.message(), "'weight'")));
}

}  // namespace
}  // namespace coxswain
