// Calls of the controller have no bound of their own: each ends because its tasks answer, or
// because the controller finds that they are gone or silent, or ends itself. The test plays the
// tasks.
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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

constexpr absl::Duration kLease = absl::Milliseconds(500);
// Of a task that has to be set up again while it says nothing, on a machine that is busy.
constexpr absl::Duration kLongLease = absl::Seconds(2);

proto::ShardSpec Shard(int id) {
  return testing::WholeOf(testing::VariableOf(absl::StrCat("n", id), {1}, false, {}, DType::kI64),
                          static_cast<ShardId>(id));
}

std::shared_ptr<const graph::Function> Add() {
  graph::GraphBuilder b("add", &testing::ClusterOps());
  b.Target("AssignAddVariable", {b.Argument("one", DType::kI64, Shape{1})}, testing::ShardOf(1));
  return std::make_shared<const graph::Function>(*b.Finish());
}

std::shared_ptr<const graph::Function> Twice() {
  graph::GraphBuilder b("twice", &testing::ClusterOps());
  const Output x = b.Argument("x", DType::kF32, Shape{1});
  b.Result("y", b.Op("Add", {x, x}));
  return std::make_shared<const graph::Function>(*b.Finish());
}

// A cluster with one shard, whose tasks do what the test says from then on.
struct Cluster : PlayedCluster {
  explicit Cluster(absl::Duration lease = kLease) : PlayedCluster(1, 10, {}, nullptr, lease) {
    REQUIRE(Await([&](auto done) { controller->CreateShards({Shard(1)}, done); }).ok());
    CheckpointOptions options;
    options.directory = files.Path("checkpoints");
    options.every = absl::ZeroDuration();
    REQUIRE(Await([&](auto done) { controller->StartCheckpoints(options, nullptr, done); }).ok());
  }
  // All of its tasks.
  std::vector<PlayedTask*> Tasks() const { return {ps.get(), workers[0].get()}; }

  const DataFiles files;
};

using Done = std::function<void(absl::Status)>;
struct Call {
  std::string name;
  std::function<void(Cluster*, Done)> begin;
  bool asks_worker = false;  // and no PS
  bool asks_again = false;   // when its PS is back
};

std::vector<Call> Calls() {
  std::vector<Call> calls;
  calls.push_back({"CreateShards", [](Cluster* c, Done done) {
                     c->controller->CreateShards({Shard(2)}, std::move(done));
                   }});
  calls.push_back({"RegisterPlan", [](Cluster* c, Done done) {
                     c->controller->RegisterPlan(1, Add(), std::vector<proto::ArgumentSource>(1), 0,
                                                 std::move(done));
                   }});
  calls.push_back({"TryCheckpointDirectory", [](Cluster* c, Done done) {
                     c->controller->TryCheckpointDirectory(c->files.Path("checkpoints"),
                                                           std::move(done));
                   }});
  calls.push_back({"Checkpoint", [](Cluster* c, Done done) {
                     c->controller->Checkpoint(
                         [done](const auto& manifest) { done(manifest.status()); });
                   }});
  calls.push_back({"QueryStatus", [](Cluster* c, Done done) {
                     c->controller->QueryStatus([done](const auto&) { done(absl::OkStatus()); });
                   }});
  calls.push_back(
      {"RegisterDataset",
       [](Cluster* c, Done done) { c->controller->RegisterDataset(1, {}, std::move(done)); },
       /*asks_worker=*/true});
  calls.push_back({"RegisterValues",
                   [](Cluster* c, Done done) {
                     c->controller->RegisterValues(7, Twice(), {Tensor::FromVector<float>({1})},
                                                   std::move(done));
                   },
                   /*asks_worker=*/true});
  calls.push_back({"AskWorker",
                   [](Cluster* c, Done done) {
                     proto::ControlRequest request;
                     request.mutable_status();
                     c->controller->AskWorker(0, request,
                                              [done](const auto& reply) { done(reply.status()); });
                   },
                   /*asks_worker=*/true});
  calls.push_back({"ReadRows",
                   [](Cluster* c, Done done) {
                     c->controller->ReadRows(1, 0, 1, 0,
                                             [done](const auto& rows) { done(rows.status()); });
                   },
                   /*asks_worker=*/false, /*asks_again=*/true});
  calls.push_back({"WriteRows",
                   [](Cluster* c, Done done) {
                     c->controller->WriteRows(1, 0, 0, Tensor::FromVector<int64_t>({1}),
                                              std::move(done));
                   },
                   /*asks_worker=*/false, /*asks_again=*/true});
  return calls;
}

// Begins the call on tasks that work on it for ever; returns when they do. Its end goes to `ended`.
void Begin(const Call& call, Cluster* cluster, Mailbox<absl::Status>* ended) {
  PlayedTask* const asked = call.asks_worker ? cluster->workers[0].get() : cluster->ps.get();
  while (!asked->others.empty()) asked->others.Take("an earlier request");
  for (PlayedTask* task : cluster->Tasks()) task->works = true;
  call.begin(cluster, [ended](absl::Status status) { ended->Put(std::move(status)); });
  asked->others.Take("a request of " + call.name);
}

TEST_CASE("a call ends when the tasks that work on it fall silent", "[calls]") {
  for (const Call& call : Calls()) {
    INFO(call.name);
    Mailbox<absl::Status> ended;
    Cluster cluster(call.asks_again ? kLongLease : kLease);
    Begin(call, &cluster, &ended);
    for (PlayedTask* task : cluster.Tasks()) task->answers_pings = false;
    if (call.asks_again) {
      cluster.ps->others.Take("the request once more");
      cluster.ps->works = false;
      cluster.ps->others.Take("the request a third time");
      cluster.ps->answers_pings = true;
    }
    ended.Take("its end").IgnoreError();  // whatever it is
  }
}

TEST_CASE("a call ends when the connections to its tasks break, however often", "[calls]") {
  for (const Call& call : Calls()) {
    INFO(call.name);
    Mailbox<absl::Status> ended;
    Cluster cluster;
    for (PlayedTask* task : cluster.Tasks()) task->breaks = true;
    call.begin(&cluster, [&ended](absl::Status status) { ended.Put(std::move(status)); });
    const absl::Status status = ended.Take("its end");
    if (!call.asks_again) continue;
    CHECK(testing::CauseOf(status) == ErrorCause::kTaskLost);
    CHECK(absl::StrContains(status.message(), "was lost 10 times with this request under way"));
  }
}

TEST_CASE("a call ends with the controller", "[calls]") {
  for (const Call& call : Calls()) {
    INFO(call.name);
    Mailbox<absl::Status> ended;
    Cluster cluster;
    Begin(call, &cluster, &ended);
    cluster.controller.reset();
    CHECK(!ended.empty());
  }
}

TEST_CASE("a call that waits for a parameter server ends with the job, or with the controller",
          "[calls]") {
  for (const bool fails : {true, false}) {
    for (const Call& call : Calls()) {
      if (!call.asks_again && call.name != "CreateShards" && call.name != "RegisterPlan") continue;
      INFO(call.name);
      Mailbox<absl::Status> ended;
      Cluster cluster;
      cluster.ps->greets = cluster.ps->answers_pings = false;
      cluster.AwaitLoss();
      call.begin(&cluster, [&ended](absl::Status status) { ended.Put(std::move(status)); });
      if (fails) {
        cluster.controller->GiveUp(absl::UnavailableError("no parameter server is left"));
      } else {
        cluster.controller.reset();
      }
      CHECK_FALSE(ended.Take("its end").ok());
    }
  }
}

}  // namespace
}  // namespace coxswain::core
