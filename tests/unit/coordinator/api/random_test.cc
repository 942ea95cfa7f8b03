// Random ops of a program's function.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/testing/cluster.h"

namespace coxswain {
namespace {

using testing::Must;
using testing::MustStart;
using testing::ToVector;

TEST_CASE("random ops without a seed draw other numbers than the others of their function",
          "[api]") {
  ParameterServerStrategy strategy(MustStart(1, 1));
  const RemoteFunction draw = Must(strategy.Define("draw", [&](FunctionBuilder& f) {
    const Attrs numbers = {{"shape", Shape{64}}, {"high", 1000000}};
    const Output ones = f.Constant(Tensor::FromVector(std::vector<float>(64, 1)));
    f.Result("users", f.Cast(f.Op("RandomInt", {}, numbers), DType::kF32));
    f.Result("items", f.Cast(f.Op("RandomInt", {}, numbers), DType::kF32));
    f.Result("first", f.Op("Dropout", {ones}, {{"rate", 0.5}}));
    f.Result("second", f.Op("Dropout", {ones}, {{"rate", 0.5}}));
    f.Result("seven", f.Op("RandomUniform", {}, {{"shape", Shape{64}}, {"seed", 7}}));
    f.Result("again", f.Op("RandomUniform", {}, {{"shape", Shape{64}}, {"seed", 7}}));
  }));
  ClusterCoordinator coordinator(strategy);
  const RemoteValue value = coordinator.Schedule(draw);
  const auto drawn = [&](const std::string& name) {
    return ToVector<float>(Must(coordinator.Fetch(value, name)));
  };
  CHECK(drawn("users") != drawn("items"));
  CHECK(drawn("first") != drawn("second"));
  CHECK(drawn("seven") == drawn("again"));
}

}  // namespace
}  // namespace coxswain
