// A checkpoint is a cut between two synchronous steps, also one that was begun when there were no
// steps yet: the first one waits until it is written.
#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "runtime/checkpoint/manifest.h"
#include "runtime/graph/builder.h"
#include "tests/testing/data_files.h"
#include "tests/testing/played_cluster.h"
#include "tests/testing/ps_specs.h"
#include "tests/testing/registry.h"

namespace coxswain::core {
namespace {

using testing::Mailbox;
using testing::PlayedCluster;
using testing::PlayedTask;

RecoveryOptions Patient() {
  RecoveryOptions recovery;
  recovery.cluster_timeout = absl::Minutes(10);
  return recovery;
}

// A parameter server that says nothing to a request to save, and a function that changes a
// variable.
struct Steps : PlayedCluster {
  explicit Steps(const RecoveryOptions& recovery = Patient())
      : PlayedCluster(1, 10, recovery, [this](const auto& request) { return ToPs(request); }) {
    const auto shard =
        testing::WholeOf(testing::VariableOf("n", {1}, false, {}, DType::kI64), /*id=*/1);
    REQUIRE(Await([&](auto done) { controller->CreateShards({shard}, done); }).ok());
    graph::GraphBuilder b("add", &testing::ClusterOps());
    b.Target("AssignAddVariable", {b.Argument("one", DType::kI64, Shape{1})}, testing::ShardOf(1));
    auto function = b.Finish();
    REQUIRE(function.ok());
    const auto add = std::make_shared<const graph::Function>(*std::move(function));
    const std::vector<proto::ArgumentSource> sources(1);
    REQUIRE(Await([&](auto done) {
              controller->RegisterPlan(1, add, sources, DatasetId(0), done);
            }).ok());
    CheckpointOptions options;
    options.directory = files.Path("checkpoints");
    options.every = absl::ZeroDuration();
    REQUIRE(Await([&](auto done) { controller->StartCheckpoints(options, nullptr, done); }).ok());
  }

  std::optional<absl::Status> ToPs(const proto::ControlRequest& request) {
    if (!request.has_save_shards()) return absl::OkStatus();
    saves.Put(request);
    return std::nullopt;
  }
  static ClosureSpec Add() {
    ClosureSpec closure;
    closure.plan = 1;
    closure.arguments = {Tensor::FromVector<int64_t>({1})};
    return closure;
  }
  void ScheduleStep() {
    controller->ScheduleStep({Add()}, SyncStep{},
                             {[this](auto results) { answers.Put(results.status()); }});
  }
  void Checkpoint() {
    controller->Checkpoint([this](const absl::StatusOr<checkpoint::Manifest>& manifest) {
      written.Put(manifest.status());
    });
  }
  // Whether the worker has got no closure; what was sent before this came before the request.
  bool NoneRuns() {
    Mailbox<absl::Status> asked;
    controller->AskWorker(0, {}, [&](const auto& reply) { asked.Put(reply.status()); });
    CHECK(asked.Take("the worker's answer").ok());
    return workers[0]->runs.empty();
  }
  void EndNext() {
    workers[0]->runs.Take("the closure").Done();
    CHECK(answers.Take("the closure's end").ok());
  }

  const DataFiles files;
  Mailbox<proto::ControlRequest> saves;
  Mailbox<absl::Status> written;
};

TEST_CASE("the first synchronous step waits for a checkpoint that was begun before it",
          "[controller]") {
  Steps t;
  // Closures that are of no step wait for none.
  t.Schedule(Steps::Add());
  t.Checkpoint();
  const proto::ControlRequest save = t.saves.Take("the request to save");
  t.EndNext();
  t.ScheduleStep();
  CHECK(t.NoneRuns());
  SECTION("until it is written") {
    t.ps->AnswerNow(save, absl::OkStatus());
    CHECK(t.written.Take("the checkpoint").ok());
  }
  SECTION("until it has failed") {
    t.ps->AnswerNow(save, absl::ResourceExhaustedError("the disk is full"));
    CHECK(absl::IsResourceExhausted(t.written.Take("the checkpoint")));
  }
  t.EndNext();
}

TEST_CASE("a checkpoint that waits for another holds the first synchronous step, too",
          "[controller]") {
  const bool before_the_step = GENERATE(true, false);
  Steps t;
  t.Checkpoint();
  const proto::ControlRequest save = t.saves.Take("the request to save");
  if (before_the_step) t.Checkpoint();
  t.ScheduleStep();
  if (!before_the_step) t.Checkpoint();
  t.ps->AnswerNow(save, absl::OkStatus());
  CHECK(t.written.Take("the checkpoint").ok());
  const proto::ControlRequest second = t.saves.Take("the next request to save");
  CHECK(t.NoneRuns());
  t.ps->AnswerNow(second, absl::OkStatus());
  CHECK(t.written.Take("the next checkpoint").ok());
  t.EndNext();
}

TEST_CASE("a checkpoint for which the first synchronous step waits for too long is given up",
          "[controller]") {
  RecoveryOptions recovery;
  recovery.cluster_timeout = absl::Milliseconds(50);
  Steps t(recovery);
  t.Checkpoint();
  t.saves.Take("the request to save");
  t.ScheduleStep();
  CHECK(absl::IsDeadlineExceeded(t.written.Take("the checkpoint")));
  t.EndNext();
}

}  // namespace
}  // namespace coxswain::core
