// Shards from which closures take numbers (FetchAdd) are in a checkpoint as they are after all
// others, which have what was computed from these numbers.
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

// Shards 1 and 2, and a parameter server that says nothing to a request to save.
struct Counted : PlayedCluster {
  Counted() : PlayedCluster(1, 1, {}, [this](const auto& request) { return ToPs(request); }) {
    std::vector<proto::ShardSpec> shards;
    for (const uint32_t id : {1, 2}) {
      shards.push_back(testing::WholeOf(
          testing::VariableOf(id == 1 ? "a" : "b", {1}, false, {}, DType::kI64), id));
    }
    REQUIRE(Await([&](auto done) { controller->CreateShards(shards, done); }).ok());
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
  // A function that takes numbers from shard 2.
  void RegisterFetch() {
    graph::GraphBuilder b("fetch", &testing::ClusterOps());
    auto of = testing::ReadOf(2, Shape{1});
    of["dtype"] = DType::kI64;
    b.Result("number", b.Op("FetchAddVariable", {b.Argument("one", DType::kI64, Shape{1})}, of));
    auto function = b.Finish();
    INFO(function.status());
    REQUIRE(function.ok());
    const auto fetch = std::make_shared<const graph::Function>(*std::move(function));
    const std::vector<proto::ArgumentSource> sources(1);
    REQUIRE(Await([&](auto done) {
              controller->RegisterPlan(1, fetch, sources, DatasetId(0), done);
            }).ok());
  }
  void Checkpoint() {
    controller->Checkpoint([this](const absl::StatusOr<checkpoint::Manifest>& manifest) {
      written.Put(manifest.status());
    });
  }
  // The next request to save, of these shards.
  proto::ControlRequest Save(const std::vector<uint32_t>& shards) {
    proto::ControlRequest request = saves.Take("the request to save");
    const auto& wanted = request.save_shards().shards();
    CHECK(std::vector<uint32_t>(wanted.begin(), wanted.end()) == shards);
    return request;
  }

  const DataFiles files;
  Mailbox<proto::ControlRequest> saves;
  Mailbox<absl::Status> written;
};

TEST_CASE("shards that give numbers are saved when all others are", "[controller]") {
  Counted t;
  t.Checkpoint();
  t.ps->AnswerNow(t.Save({1, 2}), absl::OkStatus());
  CHECK(t.written.Take("a checkpoint of a job without such shards").ok());
  t.RegisterFetch();
  t.Checkpoint();
  const proto::ControlRequest first = t.Save({1});
  CHECK(t.saves.empty());
  SECTION("and they are in the same checkpoint") {
    t.ps->AnswerNow(first, absl::OkStatus());
    const proto::ControlRequest last = t.Save({2});
    CHECK(last.save_shards().directory() == first.save_shards().directory());
    CHECK(t.written.empty());
    t.ps->AnswerNow(last, absl::OkStatus());
    CHECK(t.written.Take("the checkpoint").ok());
  }
  SECTION("and not where the others could not be") {
    t.ps->AnswerNow(first, absl::ResourceExhaustedError("the disk is full"));
    CHECK(absl::IsResourceExhausted(t.written.Take("the checkpoint")));
    CHECK(t.saves.empty());
  }
}

TEST_CASE(
    "a checkpoint that is being gathered when a function comes that takes numbers is begun "
    "anew",
    "[controller]") {
  Counted t;
  t.Checkpoint();
  const proto::ControlRequest given_up = t.Save({1, 2});
  t.RegisterFetch();
  const proto::ControlRequest first = t.Save({1});
  CHECK(first.save_shards().directory() != given_up.save_shards().directory());
  t.ps->AnswerNow(given_up, absl::OkStatus());
  CHECK(t.written.empty());
  t.ps->AnswerNow(first, absl::OkStatus());
  t.ps->AnswerNow(t.Save({2}), absl::OkStatus());
  CHECK(t.written.Take("the checkpoint").ok());
}

}  // namespace
}  // namespace coxswain::core
