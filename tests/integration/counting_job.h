// A program whose state counts its steps, on a cluster of real processes.
#pragma once

#include <catch2/catch.hpp>
#include <optional>
#include <utility>

#include "coordinator/api/cluster.h"
#include "coordinator/api/cluster_coordinator.h"
#include "coordinator/api/optimizers.h"
#include "coordinator/api/strategy.h"
#include "tests/integration/jobs.h"

namespace coxswain {

// Each step adds 1 to a counter on one PS, and, by an optimizer, 1 to every row of a table whose
// shards are on all PS.
class CountingJob {
 public:
  static constexpr int64_t kRows = 6;

  explicit CountingJob(const Cluster& cluster) : strategy_(cluster) {
    counter_ = Take(strategy_.CreateVariable("counter", {.shape = {}, .dtype = DType::kI64}));
    table_ = Take(strategy_.CreateTable("table", {.rows = kRows, .dim = 1, .optimizer = Sgd(1)}));
    step_ = Take(strategy_.Define("step", [&](FunctionBuilder& f) {
      f.AssignAdd(counter_, f.Constant(Tensor::Scalar<int64_t>(1)));
      Output rows = f.Lookup(table_, f.Constant(Tensor::FromVector<int64_t>({0, 1, 2, 3, 4, 5})));
      Output loss = f.Neg(f.Sum(rows));
      f.Minimize(loss);
      f.Result("loss", loss);
    }));
    coordinator_.emplace(strategy_);
  }

  void Schedule(int64_t steps) {
    for (int64_t i = 0; i < steps; ++i) last_ = coordinator_->Schedule(step_);
    scheduled_ += steps;
  }
  ParameterServerStrategy& strategy() { return strategy_; }
  ClusterCoordinator& coordinator() { return *coordinator_; }
  int64_t scheduled() const { return scheduled_; }
  const RemoteValue& last() const { return last_; }

  // After a Join: every step was applied once to every shard, whatever happened.
  void CheckAppliedOnce() {
    const Tensor counter = Take(strategy_.Read(counter_));
    CHECK(counter.data<int64_t>()[0] == scheduled_);
    const Tensor rows = Take(strategy_.Read(table_));
    for (int64_t r = 0; r < kRows; ++r) {
      CHECK(rows.data<float>()[r] == static_cast<float>(scheduled_));
    }
    CHECK(coordinator_->stats().completed == static_cast<uint64_t>(scheduled_));
    for (const proto::TaskStatus& task : strategy_.cluster().Status()) {
      for (const proto::ShardStatus& shard : task.shards()) {
        CAPTURE(task.task(), shard.variable(), shard.shard());
        CHECK(shard.updates_applied() == static_cast<uint64_t>(scheduled_));
      }
    }
  }

 private:
  template <typename T>
  static T Take(absl::StatusOr<T> value) {
    INFO(value.status());
    REQUIRE(value.ok());
    return *std::move(value);
  }

  ParameterServerStrategy strategy_;
  Variable counter_;
  EmbeddingTable table_;
  RemoteFunction step_;
  std::optional<ClusterCoordinator> coordinator_;
  RemoteValue last_;
  int64_t scheduled_ = 0;
};

inline Cluster Connect(const Daemons& daemons, const ClusterOptions& options = {}) {
  auto cluster = Cluster::Connect(daemons.config(), options);
  INFO(cluster.status());
  REQUIRE(cluster.ok());
  return *std::move(cluster);
}

}  // namespace coxswain
