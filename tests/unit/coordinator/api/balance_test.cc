// Shards move to other PS while a program trains, and no update is lost or counted twice.
#include <atomic>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/api/task_statuses.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/core/placement.h"
#include "coxswain/checkpoint.h"
#include "protos/control.pb.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"

namespace coxswain {
namespace {

using testing::Must;
using testing::MustStart;

constexpr int64_t kRows = 64;

// A table of 4 shards of 16 rows each in ranges; only rows of two shards on one PS are used. Each
// use of a row adds 1 to it.
struct Program {
  Program(const Cluster& cluster, CheckpointManager* checkpoints) : strategy(cluster) {
    Must(checkpoints->Restore(&strategy));
    TableOptions options;
    options.rows = kRows;
    options.dim = 1;
    options.sharding = Sharding::kDiv;
    options.partitioner = FixedShards(4);
    options.optimizer = Sgd{.learning_rate = 1};
    table = Must(strategy.CreateTable("table", options));
    step = Must(strategy.Define("step", [&](FunctionBuilder& g) {
      Output ids = g.Argument("ids", DType::kI64, Shape{kUnknownDim});
      g.Minimize(g.Neg(g.Sum(g.Lookup(table, ids))));
    }));
  }
  const proto::ShardSpec& shard(size_t index) const { return table.info().shards[index]; }

  ParameterServerStrategy strategy;
  EmbeddingTable table;
  RemoteFunction step;
};

std::map<ShardId, int> Places(const Cluster& cluster, std::map<ShardId, uint64_t>* applied) {
  std::map<ShardId, int> places;
  for (const proto::TaskStatus& task : TaskStatuses(cluster)) {
    for (const proto::ShardStatus& shard : task.shards()) {
      CHECK(places.emplace(shard.shard(), task.task()).second);  // it is in one place
      (*applied)[shard.shard()] = shard.updates_applied();
    }
  }
  return places;
}

TEST_CASE("shards that are used part at a checkpoint, and each update counts once", "[balance]") {
  for (const bool on : {true, false}) {
    const DataFiles dir;
    CheckpointOptions options;
    options.directory = dir.Path("checkpoints");
    options.every = absl::ZeroDuration();
    options.every_steps = 20;
    options.rebalance = on;
    options.balance.min_rows = 500;
    CheckpointManager checkpoints(options);
    Must(checkpoints.Find());
    const Cluster cluster = MustStart(2, 2);
    Program program(cluster, &checkpoints);
    const int ps = program.shard(0).ps();
    REQUIRE(program.shard(2).ps() == ps);
    REQUIRE(program.shard(1).ps() != ps);
    ClusterCoordinator coordinator(program.strategy);
    Must(checkpoints.Start(cluster));
    std::vector<float> wanted(kRows, 0);
    uint64_t steps = 0;
    // Rows of shards 0 and 2.
    const auto train = [&] {
      for (int i = 0; i < 100; ++i, ++steps) {
        std::vector<int64_t> ids;
        for (int64_t k = 0; k < 12; ++k) {
          const auto id = static_cast<int64_t>(steps * 7 + static_cast<uint64_t>(k) * 5) % 16;
          ids.push_back(k % 2 == 0 ? id : 32 + id);
          wanted[static_cast<size_t>(ids.back())] += 1;
        }
        coordinator.Schedule(program.step, {Tensor::FromVector(ids)});
      }
      Must(coordinator.Join());
    };
    for (int batch = 0; batch < 8; ++batch) train();
    while (on && cluster.Stats().checkpoints.shards_moved == 0) train();
    train();  // with the shards where they are now
    Must(checkpoints.Save());
    Must(cluster.WaitUntilSettled());
    const Tensor rows = Must(program.strategy.Read(program.table));
    CHECK(testing::ToVector<float>(rows) == wanted);
    std::map<ShardId, uint64_t> applied;
    const std::map<ShardId, int> places = Places(cluster, &applied);
    REQUIRE(places.size() == 4);
    for (const auto& [id, count] : applied) CHECK(count == steps);
    const bool apart = places.at(program.shard(0).id()) != places.at(program.shard(2).id());
    CHECK(apart == on);
    const ClusterStats stats = cluster.Stats();
    CHECK((stats.checkpoints.shards_moved > 0) == on);
    CHECK((stats.checkpoints.move_seconds > 0) == on);
    CHECK(stats.failures.closures_rerun == 0);
    CHECK(stats.failures.ps_lost == 0);

    // Another session on the same number of PS begins with what was measured.
    CheckpointManager again(options);
    Must(again.Find());
    REQUIRE(again.found());
    ClusterOptions next;
    next.min_epoch = again.min_epoch();
    const Cluster resumed = Must(Cluster::InProcess(2, 1, next));
    Program goes_on(resumed, &again);
    CHECK(goes_on.shard(0).ps() != goes_on.shard(2).ps());
    CHECK(testing::ToVector<float>(Must(goes_on.strategy.Read(goes_on.table))) == wanted);
  }
}

// With each checkpoint all shards move to the next PS.
CheckpointOptions MovingOn(const DataFiles& dir) {
  CheckpointOptions options;
  options.directory = dir.Path("checkpoints");
  options.every = absl::ZeroDuration();
  options.every_steps = 10;
  options.balance.pause_share = 1;
  options.choose_moves = [asked = 0](const std::set<int>& there,
                                     const std::vector<core::PlacedShard>& shards) mutable {
    std::map<uint32_t, int> moves;
    ++asked;
    for (const core::PlacedShard& s : shards) {
      moves[s.id] = static_cast<int>((s.id + static_cast<ShardId>(asked)) % there.size());
    }
    return moves;
  };
  return options;
}

TEST_CASE("a checkpoint that is asked for while shards move is written once they have",
          "[balance]") {
  const DataFiles dir;
  CheckpointManager checkpoints(MovingOn(dir));
  Must(checkpoints.Find());
  const Cluster cluster = MustStart(3, 2);
  Program program(cluster, &checkpoints);
  ClusterCoordinator coordinator(program.strategy);
  Must(checkpoints.Start(cluster));
  std::atomic<bool> over{false};
  absl::Status saved;
  std::thread saver([&] {
    while (!over) saved.Update(checkpoints.Save());
  });
  for (int i = 0; cluster.Stats().checkpoints.shards_moved < 12 && i < 1000; ++i) {
    for (int step = 0; step < 10; ++step) {
      coordinator.Schedule(program.step, {Tensor::FromVector(std::vector<int64_t>{step, 60})});
    }
    Must(coordinator.Join());
  }
  over = true;
  saver.join();
  Must(saved);
  CHECK(cluster.Stats().checkpoints.shards_moved >= 12);
}

TEST_CASE("shards move anywhere again and again, and every update counts once", "[balance]") {
  const DataFiles dir;
  CheckpointManager checkpoints(MovingOn(dir));
  Must(checkpoints.Find());
  const Cluster cluster = MustStart(3, 2);
  Program program(cluster, &checkpoints);
  ClusterCoordinator coordinator(program.strategy);
  Must(checkpoints.Start(cluster));
  std::vector<float> wanted(kRows, 0);
  int64_t steps = 0;
  while (steps < 500 || cluster.Stats().checkpoints.shards_moved < 12) {
    for (int i = 0; i < 50; ++i, ++steps) {
      const std::vector<int64_t> ids = {steps % kRows, (steps * 5 + 17) % kRows};
      for (int64_t id : ids) wanted[static_cast<size_t>(id)] += 1;
      coordinator.Schedule(program.step, {Tensor::FromVector(ids)});
    }
    Must(coordinator.Join());
  }
  Must(cluster.WaitUntilSettled());
  CHECK(testing::ToVector<float>(Must(program.strategy.Read(program.table))) == wanted);
  std::map<ShardId, uint64_t> applied;
  CHECK(Places(cluster, &applied).size() == 4);
  for (const auto& [id, count] : applied) CHECK(count == static_cast<uint64_t>(steps));
}

}  // namespace
}  // namespace coxswain
