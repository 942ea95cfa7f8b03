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

struct Plans : PlayedCluster {
  Plans() : PlayedCluster(1, 10) {
    const auto shard =
        testing::WholeOf(testing::VariableOf("n", {1}, false, {}, DType::kI64), /*id=*/1);
    REQUIRE(Await([&](auto done) { controller->CreateShards({shard}, done); }).ok());
    graph::GraphBuilder b("add", &testing::ClusterOps());
    b.Target("AssignAddVariable", {b.Argument("one", DType::kI64, Shape{1})}, testing::ShardOf(1));
    auto function = b.Finish();
    REQUIRE(function.ok());
    const auto add = std::make_shared<const graph::Function>(*std::move(function));
    REQUIRE(Await([&](auto done) {
              controller->RegisterPlan(1, add, std::vector<proto::ArgumentSource>(1), 0, done);
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
