// Functions that multiply the learning rates: what they are defined with holds, for rows, dense
// variables, and products on parameter servers.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/testing/cluster.h"

namespace coxswain {
namespace {

using testing::Must;
using testing::MustStart;
using testing::ToVector;

struct Program {
  explicit Program(Consistency consistency = {})
      : strategy(MustStart(2, 1), {.consistency = consistency}) {
    TableOptions rows;
    rows.rows = 4;
    rows.dim = 1;
    rows.initializer = Zeros();
    rows.optimizer = Sgd{.learning_rate = 1};
    table = Must(strategy.CreateTable("table", rows));
    VariableOptions numbers;
    numbers.shape = Shape{1, 1};
    numbers.initializer = Zeros();
    numbers.optimizer = Sgd{.learning_rate = 1};
    dense = Must(strategy.CreateVariable("dense", numbers));
    product = Must(strategy.CreateVariable("product", numbers));
  }
  // Each of row 1, the dense number and the product's has the gradient -1.
  RemoteFunction Step(double factor) {
    strategy.set_learning_rate_factor(factor);
    return Must(strategy.Define("step", [&](FunctionBuilder& f) {
      CHECK(f.learning_rate_factor() == factor);
      const Output row = f.Lookup(table, f.Constant(Tensor::FromVector<int64_t>({1})));
      const Output one = f.Reshape(f.Constant(testing::Floats({1})), {1, 1});
      const Output all =
          f.Op("AddN", {f.Sum(row), f.Sum(f.Read(dense)), f.Sum(f.MatMul(one, product))});
      f.Minimize(f.Neg(all));
    }));
  }
  std::vector<float> Values() {
    return {ToVector<float>(Must(strategy.Read(table)))[1],
            ToVector<float>(Must(strategy.Read(dense)))[0],
            ToVector<float>(Must(strategy.Read(product)))[0]};
  }

  ParameterServerStrategy strategy;
  EmbeddingTable table;
  Variable dense, product;
};

TEST_CASE("a function has the learning rates that it was defined with", "[api]") {
  Program program;
  const RemoteFunction whole = program.Step(1), quarter = program.Step(0.25);
  ClusterCoordinator coordinator(program.strategy);
  coordinator.Schedule(whole);
  Must(coordinator.Join());
  CHECK(program.Values() == std::vector<float>(3, 1.0f));
  coordinator.Schedule(quarter);
  Must(coordinator.Join());
  CHECK(program.Values() == std::vector<float>(3, 1.25f));
  coordinator.Schedule(whole);
  Must(coordinator.Join());
  CHECK(program.Values() == std::vector<float>(3, 2.25f));
}

TEST_CASE("a learning rate that is multiplied by nothing, or less, is refused", "[api]") {
  for (const double factor : {0.0, -1.0}) {
    Program program;
    program.strategy.set_learning_rate_factor(factor);
    const auto defined = program.strategy.Define(
        "step", [&](FunctionBuilder& f) { f.Minimize(f.Sum(f.Read(program.dense))); });
    CHECK(absl::IsInvalidArgument(defined.status()));
    CHECK_THAT(std::string(defined.status().message()), Catch::Matchers::Contains("'rate'"));
  }
}

}  // namespace
}  // namespace coxswain
