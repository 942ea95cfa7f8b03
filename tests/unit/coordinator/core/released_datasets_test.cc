// What workers are told of data sets that nobody schedules on any more; the test plays the tasks.
#include <catch2/catch.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/graph/builder.h"
#include "tests/testing/data_files.h"
#include "tests/testing/played_cluster.h"
#include "tests/testing/ps_specs.h"
#include "tests/testing/registry.h"

namespace coxswain::core {
namespace {

using testing::PlayedCluster;

// A data set 7, and a plan 1 that reads it.
struct Datasets : PlayedCluster {
  Datasets() : PlayedCluster(1, 10) {
    const auto shard =
        testing::WholeOf(testing::VariableOf("n", {1}, false, {}, DType::kI64), /*id=*/1);
    REQUIRE(Await([&](auto done) { controller->CreateShards({shard}, done); }).ok());
    REQUIRE(Await([&](auto done) { controller->RegisterDataset(7, {}, done); }).ok());
    graph::GraphBuilder b("add", &testing::ClusterOps());
    b.Target("AssignAddVariable", {b.Argument("one", DType::kI64, Shape{1})}, testing::ShardOf(1));
    auto function = b.Finish();
    REQUIRE(function.ok());
    const auto add = std::make_shared<const graph::Function>(*std::move(function));
    REQUIRE(Await([&](auto done) {
              controller->RegisterPlan(1, add, std::vector<proto::ArgumentSource>(1), 7, done);
            }).ok());
  }
  // What the worker is told to forget next; what else it is told before is passed over.
  proto::ControlRequest Forgotten() {
    for (;;) {
      proto::ControlRequest request = workers[0]->others.Take("a request");
      if (request.has_release_plan() || request.has_release_dataset()) return request;
    }
  }
};

TEST_CASE("a data set that was released goes behind the last plan that reads it", "[datasets]") {
  Datasets f;
  f.controller->DatasetReleaser(7)();
  f.controller->PlanReleaser(1)();
  CHECK(f.Forgotten().release_plan().plan() == 1);
  CHECK(f.Forgotten().release_dataset().dataset() == 7);
}

TEST_CASE("a data set that is released behind its plans goes at once", "[datasets]") {
  Datasets f;
  f.controller->PlanReleaser(1)();
  CHECK(f.Forgotten().has_release_plan());
  f.controller->DatasetReleaser(7)();
  CHECK(f.Forgotten().release_dataset().dataset() == 7);
}

TEST_CASE("a data set that one worker refuses is forgotten by those that have taken it",
          "[datasets]") {
  PlayedCluster f(2, 10);
  f.workers[1]->works = true;  // until it is told what to say
  testing::Mailbox<absl::Status> answer;
  f.controller->RegisterDataset(7, {}, [&](absl::Status s) { answer.Put(std::move(s)); });
  proto::ControlRequest asked;
  while (!asked.has_register_dataset()) asked = f.workers[1]->others.Take("a request");
  f.workers[1]->AnswerNow(asked, absl::NotFoundError("there is no such file"));
  CHECK(absl::IsNotFound(answer.Take("the answer")));
  do {
    asked = f.workers[0]->others.Take("a request");
  } while (!asked.has_release_dataset());
  CHECK(asked.release_dataset().dataset() == 7);
}

}  // namespace
}  // namespace coxswain::core
