// What tasks are told of plans that nobody schedules any more; the test plays the tasks.
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "runtime/graph/builder.h"
#include "tests/testing/data_files.h"
#include "tests/testing/played_cluster.h"
#include "tests/testing/ps_specs.h"
#include "tests/testing/registry.h"

namespace coxswain::core {
namespace {

using testing::PlayedCluster;

std::shared_ptr<const graph::Function> Add() {
  graph::GraphBuilder b("add", &testing::ClusterOps());
  b.Target("AssignAddVariable", {b.Argument("one", DType::kI64, Shape{1})}, testing::ShardOf(1));
  auto function = b.Finish();
  REQUIRE(function.ok());
  return std::make_shared<const graph::Function>(*std::move(function));
}

struct Plans : PlayedCluster {
  explicit Plans(absl::Duration lease = absl::Seconds(2))
      : PlayedCluster(1, 10, {}, nullptr, lease) {
    const auto shard =
        testing::WholeOf(testing::VariableOf("n", {1}, false, {}, DType::kI64), /*id=*/1);
    REQUIRE(Await([&](auto done) { controller->CreateShards({shard}, done); }).ok());
    REQUIRE(Await([&](auto done) {
              controller->RegisterPlan(1, Add(), std::vector<proto::ArgumentSource>(1), 0, done);
            }).ok());
  }
  // The next plan that the worker or the PS is told to forget; what else it is told before is
  // passed over.
  PlanId Forgotten(testing::PlayedTask* task) {
    for (;;) {
      const proto::ControlRequest request = task->others.Take("a request");
      if (request.has_release_plan()) return request.release_plan().plan();
    }
  }
  void Run() {
    ClosureSpec closure;
    closure.plan = 1;
    closure.arguments = {Tensor::FromVector<int64_t>({1})};
    Schedule(closure);
    workers[0]->runs.Take("the closure").Done();
    REQUIRE(answers.Take("its end").ok());
  }
};

TEST_CASE("a plan that nothing ran is forgotten at once by the PS and the worker", "[plans]") {
  Plans f;
  f.controller->PlanReleaser(1)();
  CHECK(f.Forgotten(f.workers[0].get()) == 1);
  CHECK(f.Forgotten(f.ps.get()) == 1);
}

TEST_CASE("a plan that is released while it waits for a parameter server is told to nobody",
          "[plans]") {
  Plans f(/*lease=*/absl::Milliseconds(500));
  f.ps->greets = f.ps->answers_pings = false;
  f.AwaitLoss();
  const auto more = [&](PlanId plan) {
    auto* const registered = new testing::Mailbox<absl::Status>;
    f.controller->RegisterPlan(plan, Add(), std::vector<proto::ArgumentSource>(1), 0,
                               [registered](absl::Status s) { registered->Put(std::move(s)); });
    return std::unique_ptr<testing::Mailbox<absl::Status>>(registered);
  };
  const auto released = more(2), kept = more(3);
  f.controller->PlanReleaser(2)();
  f.ps->greets = f.ps->answers_pings = true;
  CHECK(absl::IsCancelled(released->Take("the end of the released one")));
  CHECK(kept->Take("the other one").ok());
  PlanId told = 1;
  while (told == 1) told = f.workers[0]->others.Take("the other one").register_plan().plan();
  CHECK(told == 3);
}

TEST_CASE("a plan is forgotten when a checkpoint has the last closure that ran it", "[plans]") {
  Plans f;
  f.Run();
  f.controller->PlanReleaser(1)();
  const DataFiles files;
  CheckpointOptions options;
  options.directory = files.Path("checkpoints");
  options.every = absl::ZeroDuration();
  REQUIRE(f.Await([&](auto done) { f.controller->StartCheckpoints(options, nullptr, done); }).ok());
  // The log keeps what the older of two checkpoints lacks.
  for (int i = 0; i < 2; ++i) {
    REQUIRE(f.Await([&](auto done) {
               f.controller->Checkpoint(
                   [done](const absl::StatusOr<checkpoint::Manifest>& written) {
                     done(written.status());
                   });
             }).ok());
  }
  CHECK(f.Forgotten(f.workers[0].get()) == 1);
  CHECK(f.Forgotten(f.ps.get()) == 1);
}

}  // namespace
}  // namespace coxswain::core
