// Learning rates that a program sets while it trains.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "coordinator/api/variable_info.h"
#include "tests/testing/cluster.h"

namespace coxswain {
namespace {

using testing::Must;
using testing::MustStart;
using testing::ToVector;

struct Training {
  explicit Training(const OptimizerSpec& optimizer, int shards = 2) : strategy(MustStart(2, 1)) {
    rate = Must(strategy.CreateVariable("rate", {.shape = Shape{}}));
    weight = Must(strategy.CreateVariable(
        "weight", {.shape = Shape{2}, .optimizer = optimizer, .partitioner = FixedShards(shards)}));
    table = Must(strategy.CreateTable(
        "table",
        {.rows = 3, .dim = 1, .optimizer = optimizer, .partitioner = FixedShards(shards)}));
  }
  Output Loss(FunctionBuilder& f) const {
    const Output row = f.Lookup(table, f.Constant(Tensor::FromVector<int64_t>({1})));
    return f.Add(f.Sum(f.Read(weight)), f.Sum(row));
  }
  RemoteFunction Define() {
    return Must(strategy.Define("step", [&](FunctionBuilder& f) {
      f.LearningRate(f.Read(rate));
      f.Minimize(Loss(f));
    }));
  }
  void Set(float value) { Must(strategy.Assign(rate, Tensor::Scalar<float>(value))); }
  void CheckAt(float value) {
    CHECK(ToVector<float>(Must(strategy.Read(weight))) == std::vector<float>{value, value});
    CHECK(ToVector<float>(Must(strategy.Read(table))) == std::vector<float>{0, value, 0});
  }

  ParameterServerStrategy strategy;
  Variable rate, weight;
  EmbeddingTable table;
};

TEST_CASE("a learning rate that is read of a variable is what the program last set", "[api]") {
  Training t(Sgd{.learning_rate = 100});
  const RemoteFunction step = t.Define();
  ClusterCoordinator coordinator(t.strategy);
  t.Set(0.5f);
  coordinator.Schedule(step);
  Must(coordinator.Join());
  t.CheckAt(-0.5f);
  t.Set(0.25f);
  for (int i = 0; i < 2; ++i) coordinator.Schedule(step);
  Must(coordinator.Join());
  t.CheckAt(-1);
  t.Set(0);
  coordinator.Schedule(step);
  Must(coordinator.Join());
  t.CheckAt(-1);
}

TEST_CASE("a learning rate of the program's stands for the optimizer's own and its schedule",
          "[api]") {
  // The first step of Adagrad moves by rate * g / sqrt(initial + g^2).
  Training t(Adagrad{.learning_rate = 100, .initial_accumulator = 1e-6});
  const RemoteFunction step = Must(t.strategy.Define("step", [&](FunctionBuilder& f) {
    f.LearningRate(f.Argument("rate", DType::kF32, Shape{}));
    f.ApplyGradients(f.Gradients(t.Loss(f)));
  }));
  ClusterCoordinator coordinator(t.strategy);
  coordinator.Schedule(step, {Tensor::Scalar<float>(0.125f)});
  Must(coordinator.Join());
  for (const float w : ToVector<float>(Must(t.strategy.Read(t.weight)))) {
    CHECK(w == Approx(-0.125f).epsilon(1e-4));
  }
  // Another function's updates have the optimizer's own again.
  const RemoteFunction own =
      Must(t.strategy.Define("own", [&](FunctionBuilder& f) { f.Minimize(t.Loss(f)); }));
  coordinator.Schedule(own);
  Must(coordinator.Join());
  for (const float w : ToVector<float>(Must(t.strategy.Read(t.weight)))) CHECK(w < -50);
}

TEST_CASE("what is no learning rate is refused", "[api]") {
  Training t(Sgd{.learning_rate = 1});
  using Catch::Matchers::Contains;
  const auto two = t.strategy.Define("two", [&](FunctionBuilder& f) {
    f.LearningRate(f.Read(t.weight));
    f.Minimize(t.Loss(f));
  });
  CHECK_THAT(std::string(two.status().message()), Contains("wanted one f32, found f32[2]"));
  t.Set(-1);
  ClusterCoordinator coordinator(t.strategy);
  const RemoteFunction step = t.Define();
  coordinator.Schedule(step);
  CHECK_THAT(std::string(coordinator.Join().message()), Contains("wanted a learning rate"));
  t.CheckAt(0);
}

}  // namespace
}  // namespace coxswain
