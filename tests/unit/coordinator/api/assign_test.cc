// Functions that write variables by hand.
#include <catch2/catch.hpp>
#include <vector>

#include "coordinator/api/variable_info.h"
#include "tests/testing/cluster.h"

namespace coxswain {
namespace {

using testing::Floats;
using testing::Must;
using testing::MustStart;
using testing::ToVector;

TEST_CASE("Assign and AssignAdd write variables of any number of shards", "[api]") {
  for (const int shards : {1, 2, 5}) {
    INFO(shards << " shards");
    ParameterServerStrategy strategy(MustStart(2, 2));
    VariableOptions options;
    options.shape = Shape{5, 2};
    options.partitioner = FixedShards(shards);
    const Variable variable = Must(strategy.CreateVariable("variable", options));
    CHECK(variable.info().shards.size() == static_cast<size_t>(shards));
    std::vector<float> numbers(10);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
    const Tensor value = Tensor::FromVector(numbers, Shape{5, 2}).value();
    const RemoteFunction assign = Must(strategy.Define(
        "assign", [&](FunctionBuilder& f) { f.Assign(variable, f.Constant(value)); }));
    const RemoteFunction add = Must(strategy.Define("add", [&](FunctionBuilder& f) {
      f.AssignAdd(variable, f.Argument("value", DType::kF32, Shape{5, 2}));
    }));
    ClusterCoordinator coordinator(strategy);
    coordinator.Schedule(assign);
    Must(coordinator.Join());
    CHECK(ToVector<float>(Must(strategy.Read(variable))) == numbers);
    for (int i = 0; i < 20; ++i) coordinator.Schedule(add, {value});
    Must(coordinator.Join());
    for (float& number : numbers) number *= 21;
    CHECK(ToVector<float>(Must(strategy.Read(variable))) == numbers);
    // What does not fit is seen before it runs, or by the parameter server.
    const auto wrong = strategy.Define("wrong", [&](FunctionBuilder& f) {
      f.Assign(variable, f.Constant(Floats({1, 2, 3})));
    });
    if (shards > 1) {
      CHECK_FALSE(wrong.ok());
    } else {
      coordinator.Schedule(Must(wrong));
      CHECK_FALSE(coordinator.Join().ok());
    }
  }
}

}  // namespace
}  // namespace coxswain
