// Which examples a checkpoint counts as used: those of closures that are over or open, and not of
// those that were cancelled, in whatever order the news comes.
#include <catch2/catch.hpp>
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
using Ranges = std::vector<data::ScheduledExamples::Range>;

absl::Status Cancelled() {
  return WithDetail(absl::CancelledError("cancelled"), {ErrorCause::kCancelled, false, "", 0});
}

// A coordinator with one worker, which has room for all, and a function that changes a variable.
struct Tickets : PlayedCluster {
  Tickets() : PlayedCluster(1, 10) {
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
              controller->RegisterPlan(1, add, sources, /*dataset=*/1, done);
            }).ok());
    CheckpointOptions options;
    options.directory = files.Path("checkpoints");
    options.every = absl::ZeroDuration();
    REQUIRE(Await([&](auto done) { controller->StartCheckpoints(options, nullptr, done); }).ok());
  }
  // Of the examples from `begin` to below `end`, in steps of 10, for `owner`.
  PlayedTask::Run Run(uint64_t owner, int64_t begin, int64_t end) {
    ClosureSpec closure;
    closure.plan = 1;
    closure.dataset = 1;
    closure.ticket = {Part::kTraining, 0, begin, end};
    closure.steps = static_cast<uint32_t>((end - begin) / 10);
    closure.owner = owner;
    closure.arguments = {Tensor::FromVector<int64_t>({1})};
    Schedule(closure);
    return workers[0]->runs.Take("the closure");
  }
  // Returns when the worker knows.
  void Cancel(uint64_t owner) {
    controller->CancelClosures(owner);
    workers[0]->cancels.Take("the cancellation");
  }
  void End(const PlayedTask::Run& run, const absl::Status& status, uint32_t steps_done = 1) {
    run.End(status, steps_done);
    CHECK(answers.Take("the closure's end").code() == status.code());
  }
  // What a checkpoint says now.
  Ranges Used() {
    Mailbox<absl::StatusOr<checkpoint::Manifest>> written;
    controller->Checkpoint(
        [&](absl::StatusOr<checkpoint::Manifest> m) { written.Put(std::move(m)); });
    const auto manifest = written.Take("the checkpoint");
    INFO(manifest.status());
    REQUIRE(manifest.ok());
    return manifest->data.empty() ? Ranges{} : manifest->data[0].scheduled.ranges();
  }

  const DataFiles files;
};

TEST_CASE("a ticket that is scheduled again before its closure's cancellation arrives is used",
          "[controller]") {
  Tickets t;
  const PlayedTask::Run first = t.Run(1, 0, 10);
  t.Cancel(1);
  CHECK(t.Used() == Ranges{{0, 0, 10}});
  const PlayedTask::Run again = t.Run(2, 0, 10);
  SECTION("the new one is done first") {
    t.End(again, absl::OkStatus());
    t.End(first, Cancelled(), 0);
  }
  SECTION("the old one is cancelled first") {
    t.End(first, Cancelled(), 0);
    CHECK(t.Used() == Ranges{{0, 0, 10}});
    t.End(again, absl::OkStatus());
  }
  SECTION("the old one is done after all, and the new one cancelled") {
    t.Cancel(2);
    t.End(again, Cancelled(), 0);
    CHECK(t.Used() == Ranges{{0, 0, 10}});
    t.End(first, absl::OkStatus());
  }
  CHECK(t.Used() == Ranges{{0, 0, 10}});
}

TEST_CASE("a ticket whose closures were all cancelled is left over, but for steps that were done",
          "[controller]") {
  Tickets t;
  const PlayedTask::Run first = t.Run(1, 0, 30), other = t.Run(3, 30, 40);
  t.Cancel(1);
  const PlayedTask::Run again = t.Run(2, 0, 30);
  t.Cancel(2);
  t.End(first, Cancelled(), 1);
  CHECK(t.Used() == Ranges{{0, 0, 40}});
  t.End(again, Cancelled(), 0);
  CHECK(t.Used() == Ranges{{0, 0, 10}, {0, 30, 40}});
  t.End(other, absl::OkStatus());
  CHECK(t.Used() == Ranges{{0, 0, 10}, {0, 30, 40}});
}

TEST_CASE(
    "a closure that the checkpoint wants to run again and that is cancelled gives its "
    "examples back",
    "[controller]") {
  Tickets t;
  checkpoint::Manifest manifest;
  manifest.number = 3;
  manifest.low_water = 1;
  manifest.next_closure = 3;
  for (const ClosureId id : {1, 2}) {
    checkpoint::CheckpointClosure& closure = manifest.closures.emplace_back();
    closure.id = id;
    closure.function = "add";
  }
  checkpoint::DatasetProgress& data = manifest.data.emplace_back();
  data.dataset = 1;
  data.scheduled.Add({Part::kTraining, 0, 0, 50});
  t.controller->Resume(manifest, "unused");
  std::vector<PlayedTask::Run> runs;
  for (const ClosureId id : {1, 2}) {
    ClosureSpec closure;
    closure.plan = 1;
    closure.dataset = 1;
    closure.resumed = id;
    closure.owner = id;
    closure.ticket = {Part::kTraining, 0, static_cast<int64_t>(id) * 10,
                      static_cast<int64_t>(id) * 10 + 10};
    closure.arguments = {Tensor::FromVector<int64_t>({1})};
    t.Schedule(closure);
    runs.push_back(t.workers[0]->runs.Take("the closure"));
  }
  t.Cancel(2);
  t.End(runs[1], Cancelled(), 0);
  CHECK(t.Used() == Ranges{{0, 0, 20}, {0, 30, 50}});
  t.End(runs[0], absl::OkStatus());
  CHECK(t.Used() == Ranges{{0, 0, 20}, {0, 30, 50}});
}

TEST_CASE("a data set that could not be registered is not asked of workers that come later",
          "[controller]") {
  PlayedCluster c(1, 1);
  // The played worker says OK where it should say what it has read.
  const PlayedTask refuses(c.transport.get(), "refuses", "worker", 1,
                           [](const proto::ControlRequest& request) -> absl::Status {
                             return request.has_register_dataset()
                                        ? absl::NotFoundError("no such file")
                                        : absl::OkStatus();
                           });
  c.controller->UpdateWorkers({"worker0", "refuses"});
  const auto registered = [&](DatasetId id) {
    return c.Await([&](auto done) { c.controller->RegisterDataset(id, {}, done); });
  };
  const auto both_ready = [&c] {
    const absl::Time deadline = absl::Now() + testing::kWorkerPatience;
    while (c.Stats().workers_ready < 2 && absl::Now() < deadline) {
    }
    return c.Stats().workers_ready == 2;
  };
  REQUIRE(both_ready());
  CHECK(registered(1).code() == absl::StatusCode::kNotFound);
  PlayedTask late(c.transport.get(), "late", "worker", 1);
  c.controller->UpdateWorkers({"worker0", "late"});
  late.setups.Take("the set-up");
  REQUIRE(both_ready());
  CHECK(late.others.empty());
  // The same number again.
  CHECK(registered(1).ok());
  CHECK(late.others.Take("the data set").has_register_dataset());
}

}  // namespace
}  // namespace coxswain::core
