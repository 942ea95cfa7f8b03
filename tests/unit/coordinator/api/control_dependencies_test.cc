// What a function is told to do after something else.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "coordinator/api/variable_info.h"
#include "tests/testing/cluster.h"

namespace coxswain {
namespace {

using testing::Floats;
using testing::Must;
using testing::MustStart;
using testing::ToVector;

TEST_CASE("a read that waits for an update of the same function sees it, others do not", "[api]") {
  for (const int shards : {1, 3}) {
    INFO(shards << " shards");
    ParameterServerStrategy strategy(MustStart(2, 1, /*in_flight=*/1));
    VariableOptions options;
    options.shape = Shape{3};
    options.partitioner = FixedShards(shards);
    const Variable counter = Must(strategy.CreateVariable("counter", options));
    const RemoteFunction step = Must(strategy.Define("step", [&](FunctionBuilder& f) {
      const Output before = f.Read(counter);
      Output after;
      f.ControlDependencies({f.AssignAdd(counter, f.Constant(Floats({1, 1, 1})))},
                            [&] { after = f.Read(counter); });
      f.Result("before", before);
      f.Result("after", after);
      f.Result("still before", f.Read(counter));
    }));
    ClusterCoordinator coordinator(strategy);
    for (int i = 0; i < 3; ++i) {
      const std::vector<Tensor> results = Must(coordinator.Schedule(step).Get());
      const std::vector<float> was(3, static_cast<float>(i)), is(3, static_cast<float>(i + 1));
      CHECK(ToVector<float>(results[0]) == was);
      CHECK(ToVector<float>(results[1]) == is);
      CHECK(ToVector<float>(results[2]) == was);
    }
    Must(coordinator.Join());
  }
}

TEST_CASE("updates follow one another where they are told to, on one server and on two", "[api]") {
  ParameterServerStrategy strategy(MustStart(2, 1));
  const Variable first = Must(strategy.CreateVariable("first", {.shape = Shape{1}}));
  const Variable second = Must(strategy.CreateVariable("second", {.shape = Shape{1}}));
  REQUIRE(first.info().shards[0].ps() != second.info().shards[0].ps());
  const RemoteFunction step = Must(strategy.Define("step", [&](FunctionBuilder& f) {
    Output seen;
    const Operation one = f.Assign(first, f.Constant(Floats({5})));
    f.ControlDependencies({one}, [&] {
      const Operation two = f.AssignAdd(first, f.Constant(Floats({2})));
      f.ControlDependencies({two}, [&] { seen = f.Read(first); });
    });
    f.Assign(second, seen);
  }));
  ClusterCoordinator coordinator(strategy);
  for (int i = 0; i < 3; ++i) coordinator.Schedule(step);
  Must(coordinator.Join());
  CHECK(ToVector<float>(Must(strategy.Read(first))) == std::vector<float>{7});
  CHECK(ToVector<float>(Must(strategy.Read(second))) == std::vector<float>{7});
}

TEST_CASE("a variable that is read before and after an update has one gradient", "[api]") {
  ParameterServerStrategy strategy(MustStart(1, 1));
  const Variable weight = Must(
      strategy.CreateVariable("weight", {.shape = Shape{1}, .optimizer = Sgd{.learning_rate = 1}}));
  const Variable other = Must(strategy.CreateVariable("other", {.shape = Shape{1}}));
  for (const bool applied : {false, true}) {
    Must(strategy.Assign(weight, Floats({0})));
    const RemoteFunction step = Must(strategy.Define("step", [&](FunctionBuilder& f) {
      Output again;
      f.ControlDependencies({f.AssignAdd(other, f.Constant(Floats({1})))},
                            [&] { again = f.Read(weight); });
      const Output loss = f.Sum(f.Add(f.Read(weight), f.Mul(again, f.Scalar(2))));
      applied ? f.ApplyGradients(f.Gradients(loss)) : f.Minimize(loss);
    }));
    ClusterCoordinator coordinator(strategy);
    coordinator.Schedule(step);
    Must(coordinator.Join());
    CHECK(ToVector<float>(Must(strategy.Read(weight))) == std::vector<float>{-3});
  }
}

TEST_CASE("what does not exist cannot be waited for", "[api]") {
  ParameterServerStrategy strategy(MustStart(1, 1));
  const auto step = strategy.Define("step", [&](FunctionBuilder& f) {
    f.ControlDependencies({Output()}, [&] { f.Result("one", f.Scalar(1)); });
  });
  CHECK(step.status().code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace coxswain
