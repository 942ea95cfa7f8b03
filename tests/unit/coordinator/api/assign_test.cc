// Functions that write variables by hand.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "coordinator/api/variable_info.h"
#include "tests/testing/cluster.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
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
  }
}

TEST_CASE("a value that does not fit its variable is refused when the function is defined",
          "[api]") {
  for (const int shards : {1, 3}) {
    INFO(shards << " shards");
    ParameterServerStrategy strategy(MustStart(2, 1));
    const Variable variable = Must(strategy.CreateVariable(
        "variable", {.shape = Shape{5, 2}, .partitioner = FixedShards(shards)}));
    const auto error = [&](const Tensor& value) {
      const auto defined = strategy.Define(
          "wrong", [&](FunctionBuilder& f) { f.AssignAdd(variable, f.Constant(value)); });
      CHECK(defined.status().code() == absl::StatusCode::kInvalidArgument);
      return std::string(defined.status().message());
    };
    CHECK_THAT(error(Floats({1, 2, 3})),
               Contains("wanted f32[5,2] for variable 'variable', found f32[3]"));
    CHECK_THAT(error(Tensor::Zeros(DType::kI64, Shape{5, 2})), Contains("found i64[5,2]"));
    CHECK_THAT(error(Tensor::Zeros(DType::kF32, Shape{4, 2})), Contains("found f32[4,2]"));
    Must(strategy.Define("unknown", [&](FunctionBuilder& f) {
      f.Assign(variable, f.Argument("value", DType::kF32, Shape{kUnknownDim, 2}));
    }));
  }
}

}  // namespace
}  // namespace coxswain
