// What was sent or begun before a recovery, or in another session, has no effect after it.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "protos/control.pb.h"
#include "runtime/graph/builder.h"
#include "tests/testing/data_files.h"
#include "tests/testing/ps_daemon.h"
#include "tests/testing/ps_specs.h"

namespace coxswain::ps {
namespace {

using testing::ClusterOps;
using testing::OptimizerOf;
using testing::PsDaemon;
using testing::ShardOf;
using testing::VariableOf;
using testing::WholeOf;

proto::ShardSpec Counter(ShardId id) {
  return WholeOf(VariableOf(absl::StrCat("n", id), {1}, false, {}, DType::kI64), id);
}
proto::ShardSpec Large() {
  return WholeOf(VariableOf("large", {100'000, 16}, true, OptimizerOf("momentum")), 9);
}

graph::Function AddOne() {
  graph::GraphBuilder b("add", &ClusterOps());
  b.Target("AssignAddVariable", {b.Argument("one", DType::kI64, Shape{1})}, ShardOf(1));
  auto function = b.Finish();
  REQUIRE(function.ok());
  return *std::move(function);
}

net::Message AddFrame(const PsDaemon& ps, ClosureId closure) {
  return ps.Frame(1, closure, {Tensor::FromVector<int64_t>({1})});
}

int64_t Value(PsDaemon* ps) {
  const auto rows = ps->Rows(Counter(1));
  REQUIRE(rows.ok());
  int64_t value = 0;
  REQUIRE(rows->size() == sizeof(value));
  rows->copy(reinterpret_cast<char*>(&value), sizeof(value));
  return value;
}

TEST_CASE(
    "a coordinator of another version is refused, and takes nothing from the one that is there",
    "[ps_recovery]") {
  PsDaemon ps;
  REQUIRE(ps.Create({Counter(1)}).ok());
  proto::HelloRequest hello;
  hello.set_role(proto::COORDINATOR);
  hello.set_name("other");
  hello.set_epoch(9);
  hello.set_expected_epoch(1);
  hello.set_lease_seconds(600);
  hello.set_version("9.9.9");
  const absl::Status refused = ps.Connect()->Hello(hello);
  CHECK(absl::IsFailedPrecondition(refused));
  CHECK(absl::StrContains(refused.message(), "the coordinator runs version 9.9.9, this daemon "));
  CHECK(Value(&ps) == 0);
}

TEST_CASE("a frame of a worker of another generation closes its connection and changes nothing",
          "[ps_recovery]") {
  PsDaemon ps;
  REQUIRE(ps.Create({Counter(1)}).ok());
  REQUIRE(ps.Register(1, AddOne()).ok());
  auto before = ps.ConnectWorker(0);
  auto early = ps.ConnectWorker(2);
  CHECK(PsDaemon::Push(before.get(), AddFrame(ps, 1)).ok());
  REQUIRE(ps.Setup(1, {1}).ok());
  REQUIRE(ps.Setup(1, {1}).ok());
  before->Send(AddFrame(ps, 2));
  const absl::Status closed = before->WaitClosed();
  INFO(closed.ToString());
  const auto detail = GetDetail(closed);
  REQUIRE(detail.has_value());
  CHECK(detail->cause == ErrorCause::kTaskLost);
  CHECK(detail->retryable);
  CHECK(detail->task == "/job:ps/task:0");
  early->Send(AddFrame(ps, 2));  // of a generation that is not here yet
  CHECK(GetDetail(early->WaitClosed()).has_value());
  CHECK(Value(&ps) == 1);
  auto after = ps.ConnectWorker(1);
  CHECK(PsDaemon::Push(after.get(), AddFrame(ps, 1)).ok());  // in the ledger
  CHECK(PsDaemon::Push(after.get(), AddFrame(ps, 2)).ok());
  CHECK(Value(&ps) == 2);
  CHECK(ps.Status().pid() > 0);
  CHECK(ps.Status().host() != "");
}

TEST_CASE("a set-up drops the shards that are not kept, and an older one is refused",
          "[ps_recovery]") {
  PsDaemon ps;
  REQUIRE(ps.Create({Counter(1), Counter(2), Counter(3)}).ok());
  REQUIRE(ps.Setup(4, {1, 3, 7}).ok());
  CHECK(ps.Rows(Counter(1)).ok());
  CHECK(ps.Rows(Counter(2)).status().code() == absl::StatusCode::kNotFound);
  CHECK(ps.Rows(Counter(3)).ok());
  CHECK(ps.Setup(3, {1}).code() == absl::StatusCode::kFailedPrecondition);
  CHECK(ps.Rows(Counter(3)).ok());
  REQUIRE(ps.Setup(4, {}).ok());
  CHECK(ps.Status().shards().empty());
}

TEST_CASE("a new session begins at generation 0", "[ps_recovery]") {
  PsDaemon ps;
  REQUIRE(ps.Setup(5, {}).ok());
  ps.EndSession();
  ps.StartSession(2);
  REQUIRE(ps.Create({Counter(1)}).ok());
  REQUIRE(ps.Register(1, AddOne()).ok());
  auto worker = ps.ConnectWorker(0);
  CHECK(PsDaemon::Push(worker.get(), AddFrame(ps, 1)).ok());
  CHECK(Value(&ps) == 1);
  // The same coordinator again, as after a broken connection: what is here stays.
  REQUIRE(ps.Setup(1, {1}).ok());
  ps.StartSession(2);
  auto set_up = ps.ConnectWorker(1);
  CHECK(PsDaemon::Push(set_up.get(), AddFrame(ps, 2)).ok());
  CHECK(Value(&ps) == 2);
}

TEST_CASE("a PS keeps what a coordinator has that is silent for longer than its lease",
          "[ps_recovery]") {
  PsDaemon ps;
  REQUIRE(ps.Create({Counter(1)}).ok());
  REQUIRE(ps.Register(1, AddOne()).ok());
  ps.StartSession(1, absl::Milliseconds(50));
  auto worker = ps.ConnectWorker(0);
  REQUIRE(PsDaemon::Push(worker.get(), AddFrame(ps, 1)).ok());
  ps.AwaitMemoryQuestions(2);
  // Closures that are under way go on, and so does the coordinator, over the connection it has.
  CHECK(PsDaemon::Push(worker.get(), AddFrame(ps, 2)).ok());
  CHECK(Value(&ps) == 2);
  ps.AwaitMemoryQuestions(2);
  // The same over a new one; the connection of the worker is as good as before.
  ps.coordinator = ps.Connect();
  ps.StartSession(1);
  CHECK(PsDaemon::Push(worker.get(), AddFrame(ps, 3)).ok());
  CHECK(Value(&ps) == 3);
}

TEST_CASE("what a silent coordinator has goes when a newer one comes, or when memory is wanted",
          "[ps_recovery]") {
  PsDaemon ps;
  REQUIRE(ps.Create({Counter(1)}).ok());
  ps.StartSession(1, absl::Milliseconds(50));
  auto silent = std::move(ps.coordinator);
  ps.AwaitMemoryQuestions(1);
  ps.coordinator = ps.Connect();
  ps.StartSession(2);
  CHECK(silent->WaitClosed().code() == absl::StatusCode::kUnavailable);
  CHECK(ps.Status().shards().empty());

  REQUIRE(ps.Create({Counter(1)}).ok());
  ps.StartSession(2, absl::Milliseconds(50));
  ps.memory_wanted = true;
  CHECK(ps.coordinator->WaitClosed().code() == absl::StatusCode::kUnavailable);
  ps.coordinator = ps.Connect();
  ps.StartSession(2);
  CHECK(ps.Status().shards().empty());
}

TEST_CASE("frames that come as one are answered as one, in their order", "[ps_recovery]") {
  PsDaemon ps;
  REQUIRE(ps.Create({Counter(1)}).ok());
  REQUIRE(ps.Register(1, AddOne()).ok());
  auto worker = ps.ConnectWorker(0);
  worker->Send(function::JoinMessages(
      net::MessageType::kFrames,
      {AddFrame(ps, 1), AddFrame(ps, 2), AddFrame(ps, 1)}));  // the last one is known
  net::Message message = worker->Receive();
  CHECK(message.type == static_cast<uint16_t>(net::MessageType::kFrameReplies));
  auto replies = function::SplitMessages(std::move(message));
  REQUIRE(replies.ok());
  REQUIRE(replies->size() == 3);
  for (net::Message& reply : *replies)
    CHECK(function::DecodeSegmentReply(std::move(reply))->status.ok());
  CHECK(Value(&ps) == 2);
}

TEST_CASE("frames that come as one and are torn close the connection", "[ps_recovery]") {
  PsDaemon ps;
  REQUIRE(ps.Create({Counter(1)}).ok());
  auto worker = ps.ConnectWorker(0);
  net::Message torn = function::JoinMessages(net::MessageType::kFrames, {AddFrame(ps, 1)});
  torn.header.pop_back();
  worker->Send(std::move(torn));
  CHECK(absl::IsInvalidArgument(worker->WaitClosed()));
}

TEST_CASE("what a recovery overtakes ends with an error that says so", "[ps_recovery]") {
  const DataFiles files;
  const std::string directory = files.Path("a");
  REQUIRE(env::NewRealFileSystem()->MakeDirs(directory).ok());
  PsDaemon ps;
  REQUIRE(ps.Create({Counter(1), Large()}).ok());
  REQUIRE(ps.Register(1, AddOne()).ok());
  const proto::ShardsSaved saved = ps.Save(directory, {1}).value();
  auto worker = ps.ConnectWorker(0);
  REQUIRE(PsDaemon::Push(worker.get(), AddFrame(ps, 1)).ok());

  proto::ControlRequest setup, create;
  setup.mutable_setup_ps()->set_generation(1);
  setup.mutable_setup_ps()->add_keep(1);
  setup.mutable_setup_ps()->add_keep(9);
  *create.mutable_create_shards()->add_shards() = Counter(2);
  for (const bool restore : {true, false}) {
    INFO((restore ? "restore" : "create"));
    ps.Send(restore ? PsDaemon::RestoreRequest(directory, saved) : create);
    ps.Send(setup);
    CHECK(ps.coordinator->ReceiveStatus().ok());
    ps.env.step_pool.RunAll();
    const absl::Status overtaken = ps.coordinator->ReceiveStatus();
    CHECK(overtaken.code() == absl::StatusCode::kAborted);
    CHECK(GetDetail(overtaken)->cause == ErrorCause::kCancelled);
    CHECK(Value(&ps) == 1);
    CHECK_FALSE(ps.Rows(Counter(2)).ok());
  }

  // A save stops at its chunk; another one waits for that.
  ps.Send(PsDaemon::SaveRequest(directory, {9}));
  ps.Send(setup);
  CHECK(ps.coordinator->ReceiveStatus().ok());
  ps.Send(PsDaemon::SaveRequest(directory, {9, 1}));
  CHECK_FALSE(ps.coordinator->HasMessage());
  REQUIRE(ps.env.step_pool.RunOne());
  CHECK(ps.coordinator->ReceiveStatus().code() == absl::StatusCode::kAborted);
  ps.env.step_pool.RunAll();
  const proto::ControlReply again = ps.coordinator->ReceiveReply();
  CHECK(cluster::FromProto(again.status()).ok());
  CHECK(again.shards_saved().shards_size() == 2);
  CHECK(ps.Restore(directory, again.shards_saved()).ok());
}

TEST_CASE("a session that ends stops its save and lets the next one save", "[ps_recovery]") {
  const DataFiles files;
  REQUIRE(env::NewRealFileSystem()->MakeDirs(files.Path("a")).ok());
  PsDaemon ps;
  REQUIRE(ps.Create({Large()}).ok());
  ps.Send(PsDaemon::SaveRequest(files.Path("a"), {9}));
  REQUIRE(ps.env.step_pool.RunOne());
  proto::ControlRequest end;
  end.mutable_end_session();
  ps.Send(end);
  CHECK(ps.coordinator->ReceiveStatus().ok());
  ps.StartSession(2);
  ps.Send(PsDaemon::SaveRequest(files.Path("a"), {}));
  CHECK_FALSE(ps.coordinator->HasMessage());
  CHECK(ps.env.step_pool.RunAll() == 1);  // the chunk that was being written, and no more
  CHECK(ps.coordinator->ReceiveStatus().code() == absl::StatusCode::kAborted);
  CHECK(ps.coordinator->ReceiveStatus().ok());
}

}  // namespace
}  // namespace coxswain::ps
