// A program whose state counts its steps, on a cluster of real processes.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "coordinator/api/task_statuses.h"
#include "coxswain/cluster.h"
#include "coxswain/cluster_coordinator.h"
#include "coxswain/optimizers.h"
#include "coxswain/strategy.h"
#include "protos/control.pb.h"
#include "tests/integration/jobs.h"

namespace coxswain {

// Each step adds 1 to a counter on one PS, and, by an optimizer, 1 to every row of a table whose
// shards are on all PS.
class CountingJob {
 public:
  static constexpr int64_t kRows = 6;

  struct Options {
    CoordinatorOptions coordinator = {};
    // Products of two 1024 x 1024 matrices that a step computes before it updates anything: about
    // 20 ms each.
    int slow = 0;
  };

  explicit CountingJob(const Cluster& cluster) : CountingJob(cluster, Options{}) {}
  CountingJob(const Cluster& cluster, const Options& options) : strategy_(cluster) {
    counter_ = Take(strategy_.CreateVariable("counter", {.shape = {}, .dtype = DType::kI64}));
    table_ = Take(strategy_.CreateTable(
        "table", {.rows = kRows, .dim = 1, .optimizer = Sgd{.learning_rate = 1}}));
    step_ = Take(strategy_.Define("step", [&](FunctionBuilder& f) {
      const Output one = One(f, options.slow);
      f.AssignAdd(counter_, f.Cast(one, DType::kI64));
      Output rows = f.Lookup(table_, f.Constant(Tensor::FromVector<int64_t>({0, 1, 2, 3, 4, 5})));
      Output loss = f.Neg(f.Mul(f.Sum(rows), one));
      f.Minimize(loss);
      f.Result("loss", loss);
    }));
    coordinator_.emplace(strategy_, options.coordinator);
    coordinator_->set_observer([progress = progress_](const Ticket&, const auto& results) {
      absl::MutexLock lock(&progress->mu);
      if (results.ok()) ++progress->completed;
    });
  }

  void Schedule(int64_t steps) {
    for (int64_t i = 0; i < steps; ++i) last_ = coordinator_->Schedule(step_);
    scheduled_ += steps;
    closures_ += steps;
  }
  // Closures of several steps each.
  void SchedulePacked(int64_t closures, uint32_t steps) {
    for (int64_t i = 0; i < closures; ++i) last_ = coordinator_->Schedule(step_, Ticket{}, steps);
    scheduled_ += closures * steps;
    closures_ += closures;
  }
  absl::Status Join() { return coordinator_->Join(); }

  // Waits until this number of closures, of all since the beginning, are complete. False: not in
  // time.
  bool AwaitCompleted(int64_t closures, absl::Duration timeout = absl::Seconds(60)) const {
    absl::MutexLock lock(&progress_->mu);
    const auto reached = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return progress_->completed >= closures;
    };
    return progress_->mu.AwaitWithTimeout(absl::Condition(&reached), timeout);
  }
  int64_t completed() const {
    absl::MutexLock lock(&progress_->mu);
    return progress_->completed;
  }
  // Waits until every shard has taken this number of steps. False: not in time.
  bool AwaitApplied(uint64_t steps, absl::Duration timeout = absl::Seconds(60)) const {
    const absl::Time deadline = absl::Now() + timeout;
    while (absl::Now() < deadline) {
      uint64_t least = steps;
      const auto applied = Applied();
      for (const auto& [shard, count] : applied) least = std::min(least, count);
      if (!applied.empty() && least >= steps) return true;
    }
    return false;
  }
  // Steps that each shard has taken.
  std::map<uint32_t, uint64_t> Applied() const {
    std::map<uint32_t, uint64_t> applied;
    for (const proto::TaskStatus& task : TaskStatuses(strategy_.cluster())) {
      for (const auto& shard : task.shards()) applied[shard.shard()] = shard.updates_applied();
    }
    return applied;
  }
  // Of the shard that had to drop most.
  uint64_t DuplicatesDropped() const {
    uint64_t most = 0;
    for (const proto::TaskStatus& task : TaskStatuses(strategy_.cluster())) {
      for (const auto& shard : task.shards()) most = std::max(most, shard.duplicates_dropped());
    }
    return most;
  }

  ParameterServerStrategy& strategy() { return strategy_; }
  ClusterCoordinator& coordinator() { return *coordinator_; }
  const RemoteFunction& step() const { return step_; }
  int64_t scheduled() const { return scheduled_; }
  const RemoteValue& last() const { return last_; }
  int64_t ReadCounter() { return Take(strategy_.Read(counter_)).data<int64_t>()[0]; }

  // After a Join: every step was applied once to every shard, whatever happened.
  void CheckAppliedOnce() {
    CHECK(ReadCounter() == scheduled_);
    const Tensor rows = Take(strategy_.Read(table_));
    for (int64_t r = 0; r < kRows; ++r) {
      CHECK(rows.data<float>()[r] == static_cast<float>(scheduled_));
    }
    CHECK(coordinator_->stats().completed == static_cast<uint64_t>(closures_));
    for (const proto::TaskStatus& task : TaskStatuses(strategy_.cluster())) {
      for (const proto::ShardStatus& shard : task.shards()) {
        CAPTURE(task.task(), shard.variable(), shard.shard());
        CHECK(shard.updates_applied() == static_cast<uint64_t>(scheduled_));
      }
    }
  }

 private:
  struct Progress {
    absl::Mutex mu;
    int64_t completed ABSL_GUARDED_BY(mu) = 0;
  };

  template <typename T>
  static T Take(absl::StatusOr<T> value) {
    INFO(value.status());
    REQUIRE(value.ok());
    return *std::move(value);
  }

  // The number 1, known once the slow part is over: each element of the product of such matrices
  // is that of the factors.
  static Output One(FunctionBuilder& f, int slow) {
    if (slow == 0) return f.Scalar(1);
    constexpr int64_t kSize = 1024;
    const Output matrix =
        f.Constant(Tensor::FromVector<float>(std::vector<float>(kSize * kSize, 1.0f / kSize),
                                             Shape{kSize, kSize})
                       .value());
    Output product = matrix;
    for (int i = 0; i < slow; ++i) product = f.MatMul(product, matrix);
    return f.Add(f.Scalar(1), f.Mul(f.Scalar(0), f.Sum(product)));
  }

  ParameterServerStrategy strategy_;
  Variable counter_;
  EmbeddingTable table_;
  RemoteFunction step_;
  std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
  std::optional<ClusterCoordinator> coordinator_;
  RemoteValue last_;
  int64_t scheduled_ = 0;  // steps
  int64_t closures_ = 0;
};

inline Cluster Connect(const Daemons& daemons, const ClusterOptions& options = {}) {
  auto cluster = Cluster::Connect(daemons.config(), options);
  INFO(cluster.status());
  REQUIRE(cluster.ok());
  return *std::move(cluster);
}

}  // namespace coxswain
