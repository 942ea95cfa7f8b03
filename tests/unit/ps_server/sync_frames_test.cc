// Frames of synchronous steps at a PS: what waits, what is held, and what ends the wait.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "protos/control.pb.h"
#include "runtime/graph/builder.h"
#include "tests/testing/ps_daemon.h"
#include "tests/testing/ps_specs.h"

namespace coxswain::ps {
namespace {

using testing::ClusterOps;
using testing::PsDaemon;
using testing::PsPeer;
using testing::ShardOf;
using testing::VariableOf;
using testing::WholeOf;

constexpr SyncStep kFirst{.first = 1, .count = 2}, kNext{.first = 3, .count = 1, .after = 1};
constexpr uint32_t kHeld = function::SegmentRequest::kHeldEverywhere;

proto::ShardSpec Counter(ShardId id) {
  return WholeOf(VariableOf(absl::StrCat("n", id), {1}, false, {}, DType::kI64), id);
}

// Counters 1 and 2, each in a lane of its own; plan 1, which adds to both; and plan 2, which adds 1
// to the first and what that was to the second, and needs both lanes at once.
struct Ps : PsDaemon {
  explicit Ps(int lanes) : PsDaemon(0, lanes) {
    REQUIRE(Create({Counter(1), Counter(2)}).ok());
    graph::GraphBuilder b("add", &ClusterOps());
    const Output one = b.Argument("one", DType::kI64, Shape{1});
    for (const ShardId id : {1, 2}) b.Target("AssignAddVariable", {one}, ShardOf(id));
    auto function = b.Finish();
    REQUIRE(function.ok());
    REQUIRE(Register(1, *function).ok());
    graph::GraphBuilder together("together", &ClusterOps());
    const Output by = together.Argument("one", DType::kI64, Shape{1});
    Attrs first = testing::ReadOf(1, Shape{1});
    first["dtype"] = DType::kI64;
    together.Target("AssignAddVariable", {together.Op("ReadVariable", {}, first)}, ShardOf(2));
    together.Target("AssignAddVariable", {by}, ShardOf(1));
    function = together.Finish();
    REQUIRE(function.ok());
    REQUIRE(Register(2, *function).ok());
  }
  net::Message Of(ClosureId closure, const SyncStep& step, uint32_t segment = 0,
                  PlanId plan = 1) const {
    function::SegmentRequest request;
    request.session = session();
    request.call = closure;
    request.closure = closure;
    request.plan = plan;
    request.segment = segment;
    request.sync = step;
    if (segment == 0) request.tensors = {Tensor::FromVector<int64_t>({1})};
    return function::Encode(std::move(request));
  }
  int64_t Value(ShardId id) {
    const auto rows = Rows(Counter(id));
    REQUIRE(rows.ok());
    int64_t value = 0;
    rows->copy(reinterpret_cast<char*>(&value), sizeof(value));
    return value;
  }
};

absl::Status ReplyOf(PsPeer* worker) {
  auto reply = function::DecodeSegmentReply(worker->Receive());
  REQUIRE(reply.ok());
  return reply->status;
}

TEST_CASE("a frame of the next step waits for the step before, and holds up nobody else",
          "[sync]") {
  for (const int lanes : {1, 2}) {
    INFO(lanes << " lanes");
    Ps ps(lanes);
    auto worker = ps.ConnectWorker(0), other = ps.ConnectWorker(0, 1);
    other->Send(ps.Of(3, kNext));
    CHECK(PsDaemon::Push(worker.get(), ps.Of(1, kFirst)).ok());
    CHECK(PsDaemon::Push(worker.get(), ps.Of(2, kFirst)).ok());
    CHECK_FALSE(other->HasMessage());
    CHECK(absl::StrContains(ps.Status().running(), absl::StrCat(lanes, " frames wait for one")));
    CHECK(PsDaemon::Push(worker.get(), ps.Of(1, kFirst, kHeld)).ok());
    CHECK(ps.Value(1) + ps.Value(2) == 0);
    CHECK_FALSE(other->HasMessage());
    CHECK(PsDaemon::Push(worker.get(), ps.Of(2, kFirst, kHeld)).ok());
    CHECK(ps.Value(1) == 2);
    CHECK(ps.Value(2) == 2);
    CHECK(ReplyOf(other.get()).ok());
    CHECK(ps.Value(1) == 2);  // it is held
    CHECK(PsDaemon::Push(other.get(), ps.Of(3, kNext, kHeld)).ok());
    CHECK(ps.Value(1) == 3);
    const proto::TaskStatus status = ps.Status();
    CHECK(absl::StrContains(status.running(), "synchronous steps: 0 not applied yet"));
    for (const proto::ShardStatus& shard : status.shards()) CHECK(shard.updates_applied() == 2);
  }
}

TEST_CASE("a set-up ends the wait of frames and forgets what is held", "[sync][ps_recovery]") {
  Ps ps(2);
  auto worker = ps.ConnectWorker(0), other = ps.ConnectWorker(0, 1);
  other->Send(ps.Of(3, kNext));
  CHECK(PsDaemon::Push(worker.get(), ps.Of(1, kFirst)).ok());
  CHECK(PsDaemon::Push(worker.get(), ps.Of(1, kFirst, kHeld)).ok());
  REQUIRE(ps.Setup(1, {1, 2}).ok());
  const absl::Status closed = other->WaitClosed();
  INFO(closed.ToString());
  REQUIRE(GetDetail(closed).has_value());
  CHECK(GetDetail(closed)->cause == ErrorCause::kTaskLost);
  auto again = ps.ConnectWorker(1);
  CHECK(PsDaemon::Push(again.get(), ps.Of(2, kFirst)).ok());
  CHECK(PsDaemon::Push(again.get(), ps.Of(2, kFirst, kHeld)).ok());
  CHECK(ps.Value(1) == 0);  // the first closure is not held any more
  CHECK(PsDaemon::Push(again.get(), ps.Of(1, kFirst)).ok());
  CHECK(PsDaemon::Push(again.get(), ps.Of(1, kFirst, kHeld)).ok());
  CHECK(ps.Value(1) == 2);
}

TEST_CASE("the end of a session ends the wait of frames, too", "[sync][ps_recovery]") {
  Ps ps(1);
  auto worker = ps.ConnectWorker(0);
  worker->Send(ps.Of(3, kNext));
  CHECK_FALSE(worker->HasMessage());
  ps.EndSession();
  CHECK_FALSE(worker->WaitClosed().ok());
  ps.StartSession(2);
  CHECK_FALSE(absl::StrContains(ps.Status().running(), "synchronous"));
}

TEST_CASE("a frame that tells of a step that cannot be is refused, and changes nothing", "[sync]") {
  Ps ps(2);
  auto worker = ps.ConnectWorker(0);
  CHECK(PsDaemon::Push(worker.get(), ps.Of(1, kFirst)).ok());
  const absl::Status other = PsDaemon::Push(worker.get(), ps.Of(1, {.first = 1, .count = 3}));
  CHECK(other.code() == absl::StatusCode::kInvalidArgument);
  const absl::Status told = PsDaemon::Push(worker.get(), ps.Of(1, {.first = 1, .count = 3}, kHeld));
  CHECK(told.code() == absl::StatusCode::kInvalidArgument);
  CHECK(ps.Value(1) == 0);
}

// Both in one message.
net::Message Together(net::Message first, net::Message second) {
  std::vector<net::Message> parts;
  parts.push_back(std::move(first));
  parts.push_back(std::move(second));
  return function::JoinMessages(net::MessageType::kFrames, std::move(parts));
}

// What the answers to a joined message say, in the order of its parts.
std::vector<absl::Status> RepliesOf(PsPeer* worker) {
  net::Message joined = worker->Receive();
  CHECK(joined.type == static_cast<uint16_t>(net::MessageType::kFrameReplies));
  auto parts = function::SplitMessages(std::move(joined));
  REQUIRE(parts.ok());
  std::vector<absl::Status> statuses;
  for (net::Message& part : *parts) {
    auto reply = function::DecodeSegmentReply(std::move(part));
    REQUIRE(reply.ok());
    statuses.push_back(reply->status);
  }
  return statuses;
}

TEST_CASE("a confirmation that comes with what waits for it is heard first, in every lane",
          "[sync]") {
  // Plan 2 needs both lanes at once.
  const PlanId plan = GENERATE(1, 2);
  const int lanes = GENERATE(1, 2);
  INFO("plan " << plan << ", " << lanes << " lanes");
  Ps ps(lanes);
  constexpr SyncStep kBoth{.first = 3, .count = 2, .after = 1};
  auto worker = ps.ConnectWorker(0), other = ps.ConnectWorker(0, 1);
  CHECK(PsDaemon::Push(worker.get(), ps.Of(1, kFirst, 0, plan)).ok());
  CHECK(PsDaemon::Push(other.get(), ps.Of(2, kFirst, 0, plan)).ok());
  worker->Send(Together(ps.Of(3, kBoth, 0, plan), ps.Of(1, kFirst, kHeld, plan)));
  CHECK_FALSE(worker->HasMessage());  // the step lacks a closure
  CHECK(ps.Value(1) == 0);
  SECTION("the last of the step") {
    CHECK(PsDaemon::Push(other.get(), ps.Of(2, kFirst, kHeld, plan)).ok());
    CHECK(ps.Value(1) == 2);
    CHECK(RepliesOf(worker.get()) == std::vector<absl::Status>(2));
  }
  SECTION("the last of the step with what waits for both") {
    other->Send(Together(ps.Of(2, kFirst, kHeld, plan), ps.Of(4, kBoth, 0, plan)));
    CHECK(ps.Value(1) == 2);
    CHECK(RepliesOf(worker.get()) == std::vector<absl::Status>(2));
    CHECK(RepliesOf(other.get()) == std::vector<absl::Status>(2));
  }
  SECTION("said again by itself, it is answered at once") {
    CHECK(PsDaemon::Push(worker.get(), ps.Of(1, kFirst, kHeld, plan)).ok());
    CHECK_FALSE(worker->HasMessage());
    CHECK(PsDaemon::Push(other.get(), ps.Of(2, kFirst, kHeld, plan)).ok());
    CHECK(ps.Value(1) == 2);
    CHECK(RepliesOf(worker.get()) == std::vector<absl::Status>(2));
  }
}

// What the coordinator says: a step takes these closures.
absl::Status Choose(Ps* ps, const SyncStep& step, const std::vector<uint64_t>& chosen,
                    uint64_t generation) {
  proto::ControlRequest request;
  proto::ApplyStep* const apply = request.mutable_apply_step();
  apply->set_generation(generation);
  apply->set_first(step.first.number());
  apply->set_count(step.count);
  apply->set_backup(step.backup);
  for (const uint64_t closure : chosen) apply->add_closures(closure);
  return ps->Call(request).status();
}

TEST_CASE("a step with backups is applied in every lane when the coordinator says with which ones",
          "[sync][backup]") {
  constexpr SyncStep kOneOfTwo{.first = 1, .count = 1, .backup = 1};
  for (const int lanes : {1, 2}) {
    INFO(lanes << " lanes");
    Ps ps(lanes);
    auto worker = ps.ConnectWorker(0), other = ps.ConnectWorker(0, 1);
    CHECK(PsDaemon::Push(worker.get(), ps.Of(1, kOneOfTwo)).ok());
    CHECK(PsDaemon::Push(worker.get(), ps.Of(2, kOneOfTwo)).ok());
    other->Send(ps.Of(3, kNext));
    CHECK_FALSE(other->HasMessage());
    // Of another set-up, or what no step can be.
    CHECK(Choose(&ps, kOneOfTwo, {2}, 7).code() == absl::StatusCode::kFailedPrecondition);
    CHECK(Choose(&ps, kOneOfTwo, {1, 2}, 0).code() == absl::StatusCode::kInvalidArgument);
    CHECK(Choose(&ps, {.first = 0, .count = 1, .backup = 1}, {1}, 0).code() ==
          absl::StatusCode::kInvalidArgument);
    CHECK(ps.Value(1) + ps.Value(2) == 0);
    CHECK_FALSE(other->HasMessage());
    CHECK(Choose(&ps, kOneOfTwo, {2}, 0).ok());
    CHECK(ps.Value(1) == 1);
    CHECK(ps.Value(2) == 1);
    CHECK(ReplyOf(other.get()).ok());                               // it waited for that
    CHECK(Choose(&ps, kOneOfTwo, {2}, 0).ok());                     // said again
    CHECK(PsDaemon::Push(worker.get(), ps.Of(1, kOneOfTwo)).ok());  // too late
    CHECK(ps.Value(1) == 1);
  }
}

}  // namespace
}  // namespace coxswain::ps
