// A PS with several lanes: what runs at the same time, what does not, and that nobody can tell how
// many lanes there are.
#include <catch2/catch.hpp>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "protos/control.pb.h"
#include "runtime/graph/builder.h"
#include "tests/testing/data_files.h"
#include "tests/testing/ps_daemon.h"
#include "tests/testing/ps_specs.h"

namespace coxswain::ps {
namespace {

using testing::ClusterOps;
using testing::Ids;
using testing::OptimizerOf;
using testing::PsDaemon;
using testing::PsPeer;
using testing::RandomTensor;
using testing::ReadOf;
using testing::ShardOf;
using testing::SplitOf;
using testing::VariableOf;
using testing::WholeOf;

constexpr absl::Duration kPatience = absl::Seconds(20);

// Small and equal: with two lanes, odd ones are in lane 0 and even ones in lane 1.
proto::ShardSpec Counter(ShardId id) {
  return WholeOf(VariableOf(absl::StrCat("n", id), {1}, false, {}, DType::kI64), id);
}

Attrs ReadCounter(ShardId id) {
  Attrs attrs = ReadOf(id, Shape{1});
  attrs["dtype"] = DType::kI64;
  return attrs;
}

graph::Function Build(const std::function<void(graph::GraphBuilder*)>& build) {
  graph::GraphBuilder b("f", &ClusterOps());
  build(&b);
  auto function = b.Finish();
  INFO(function.status().ToString());
  REQUIRE(function.ok());
  return *std::move(function);
}

// Adds one to each of these counters.
graph::Function AddOne(const std::vector<ShardId>& shards) {
  return Build([&](graph::GraphBuilder* b) {
    const Output one = b->Argument("one", DType::kI64, Shape{1});
    for (ShardId id : shards) b->Target("AssignAddVariable", {one}, ShardOf(id));
  });
}

Tensor One() { return Tensor::FromVector<int64_t>({1}); }

int64_t Value(PsDaemon* ps, ShardId id) {
  const auto rows = ps->Rows(Counter(id));
  REQUIRE(rows.ok());
  int64_t value = 0;
  REQUIRE(rows->size() == sizeof(value));
  rows->copy(reinterpret_cast<char*>(&value), sizeof(value));
  return value;
}

// On another thread than the test's: no assertions.
absl::Status PushOn(PsPeer* worker, net::Message frame) {
  worker->Send(std::move(frame));
  std::optional<net::Message> message = worker->TryReceive();
  if (!message.has_value()) return absl::DeadlineExceededError("no reply");
  auto reply = function::DecodeSegmentReply(*std::move(message));
  return reply.ok() ? reply->status : reply.status();
}

TEST_CASE("frames of two workers to shards of different lanes run at the same time", "[ps_lanes]") {
  PsDaemon ps(0, 2);
  absl::Mutex mu;
  int here = 0;
  int met = 0;
  // Each waits in its lane, with its update applied, until the other one is there too.
  ps.env.at_fault_point = [&](const std::string& name) {
    if (name != "ps.segment.applied") return;
    absl::MutexLock lock(&mu);
    ++here;
    const auto both = [&here] { return here == 2; };
    if (mu.AwaitWithTimeout(absl::Condition(&both), kPatience)) ++met;
  };
  REQUIRE(ps.Create({Counter(1), Counter(2)}).ok());
  REQUIRE(ps.Register(1, AddOne({1})).ok());
  REQUIRE(ps.Register(2, AddOne({2})).ok());
  auto first = ps.ConnectWorker(0, 0), second = ps.ConnectWorker(0, 1);
  absl::Status other;
  std::thread thread([&] { other = PushOn(first.get(), ps.Frame(1, 1, {One()})); });
  CHECK(PushOn(second.get(), ps.Frame(2, 2, {One()})).ok());
  thread.join();
  CHECK(other.ok());
  CHECK(met == 2);
  CHECK(Value(&ps, 1) == 1);
  CHECK(Value(&ps, 2) == 1);
}

TEST_CASE("a segment that computes for long holds up neither its connection nor the coordinator's",
          "[ps_lanes]") {
  PsDaemon::Options options;
  options.threads_for_lanes = true;
  PsDaemon ps(std::move(options));
  absl::Notification computing, go_on;
  ps.env.at_fault_point = [&](const std::string& name) {
    if (name != "ps.segment.applied" || computing.HasBeenNotified()) return;
    computing.Notify();
    go_on.WaitForNotificationWithTimeout(kPatience);
  };
  REQUIRE(ps.Create({Counter(1)}).ok());
  REQUIRE(ps.Register(1, AddOne({1})).ok());
  auto worker = ps.ConnectWorker(0);
  worker->Send(ps.Frame(1, 1, {One()}));
  CHECK_FALSE(go_on.HasBeenNotified());
  REQUIRE(computing.WaitForNotificationWithTimeout(kPatience));
  // The worker asks whether the PS is there, sends more, and the coordinator keeps its lease.
  proto::PingRequest ping;
  ping.set_session(ps.session());
  for (PsPeer* peer : {worker.get(), ps.coordinator.get()}) {
    peer->Send(cluster::EncodeControl(net::MessageType::kPing, ping));
    CHECK(peer->Receive().type == static_cast<uint16_t>(net::MessageType::kPong));
  }
  worker->Send(ps.Frame(1, 2, {One()}));
  worker->Send(cluster::EncodeControl(net::MessageType::kPing, ping));
  CHECK(worker->Receive().type == static_cast<uint16_t>(net::MessageType::kPong));
  CHECK_FALSE(worker->HasMessage());
  go_on.Notify();
  for (const uint64_t call : {1, 2}) {
    const auto reply = function::DecodeSegmentReply(worker->Receive());
    REQUIRE(reply.ok());
    CHECK(reply->call == call);
    CHECK(reply->status.ok());
  }
  CHECK(Value(&ps, 1) == 2);
}

TEST_CASE("a segment that is known to be short runs on the thread that brings it", "[ps_lanes]") {
  PsDaemon::Options options;
  options.lanes = 2;
  options.threads_for_lanes = true;
  PsDaemon ps(std::move(options));
  REQUIRE(ps.Create({Counter(1), Counter(2)}).ok());
  REQUIRE(ps.Register(1, AddOne({1, 2})).ok());
  auto worker = ps.ConnectWorker(0);
  // On a machine that is busy with other things a run may seem long.
  int64_t here = 0;
  for (ClosureId c = 1; here < 100 && c < 100'000; ++c) {
    worker->Send(ps.Frame(1, c, {One()}));
    if (c > 1 && worker->HasMessage()) ++here;
    worker->Receive();
  }
  CHECK(here == 100);
}

TEST_CASE("an answer that is too large to be sent is an error of its frame and of no other",
          "[ps_lanes]") {
  PsDaemon::Options options;
  options.transport = net::NewInProcessTransport(8 << 10);
  PsDaemon ps(std::move(options));
  REQUIRE(ps.Create({WholeOf(VariableOf("t", {100, 16}, true, {}), 1)}).ok());
  REQUIRE(ps.Register(1, Build([](graph::GraphBuilder* b) {
                        const Output ids = b->Argument("ids", DType::kI64, Shape{kUnknownDim});
                        b->Result("rows", b->Op("GatherShard", {ids}, ReadOf(1, Shape{100, 16})));
                      }))
              .ok());
  auto worker = ps.ConnectWorker(0);
  const auto ids = [](int64_t n) {
    return Tensor::FromVector<int64_t>(std::vector<int64_t>(static_cast<size_t>(n), 5));
  };
  // 100 rows fit, 200 do not; and two times 100 do not fit into one.
  worker->Send(function::JoinMessages(
      net::MessageType::kFrames,
      {ps.Frame(1, 1, {ids(100)}), ps.Frame(1, 2, {ids(200)}), ps.Frame(1, 3, {ids(100)})}));
  std::vector<function::SegmentReply> replies;
  while (replies.size() < 3) {
    net::Message message = worker->Receive();
    std::vector<net::Message> parts;
    if (message.type == static_cast<uint16_t>(net::MessageType::kFrameReplies)) {
      parts = *function::SplitMessages(std::move(message));
    } else {
      parts.push_back(std::move(message));
    }
    for (net::Message& part : parts) {
      auto reply = function::DecodeSegmentReply(std::move(part));
      REQUIRE(reply.ok());
      replies.push_back(*std::move(reply));
    }
  }
  CHECK((replies[0].status.ok() && replies[2].status.ok()));
  CHECK(replies[2].call == 3);
  const absl::Status& large = replies[1].status;
  INFO(large);
  CHECK(absl::IsResourceExhausted(large));
  CHECK(GetDetail(large)->cause == ErrorCause::kApplication);
  CHECK(GetDetail(large)->task == "/job:ps/task:0");
  CHECK(PsDaemon::Push(worker.get(), ps.Frame(1, 4, {ids(1)})).ok());
}

TEST_CASE("a recovery waits for frames that run and refuses what is left of them", "[ps_lanes]") {
  PsDaemon ps(0, 2);
  absl::Notification half, go_on;
  ps.env.at_fault_point = [&](const std::string& name) {
    if (name != "ps.segment.applied" || half.HasBeenNotified()) return;
    half.Notify();
    go_on.WaitForNotificationWithTimeout(kPatience);
  };
  REQUIRE(ps.Create({Counter(1), Counter(2)}).ok());
  REQUIRE(ps.Register(1, AddOne({1, 2})).ok());
  auto worker = ps.ConnectWorker(0);
  std::thread thread([&] { worker->Send(ps.Frame(1, 1, {One()})); });
  REQUIRE(half.WaitForNotificationWithTimeout(kPatience));
  // Its first lane has applied its piece and is not free yet; the second one is.
  proto::ControlRequest setup;
  setup.mutable_setup_ps()->set_generation(1);
  setup.mutable_setup_ps()->add_keep(1);
  setup.mutable_setup_ps()->add_keep(2);
  ps.Send(setup);
  const bool too_early = ps.coordinator->HasMessage();
  go_on.Notify();
  thread.join();
  CHECK_FALSE(too_early);
  CHECK(ps.coordinator->ReceiveStatus().ok());
  const absl::Status closed = worker->WaitClosed();
  INFO(closed.ToString());
  REQUIRE(GetDetail(closed).has_value());
  CHECK(GetDetail(closed)->cause == ErrorCause::kTaskLost);
  CHECK_FALSE(worker->HasMessage());
  CHECK(Value(&ps, 1) == 1);
  CHECK(Value(&ps, 2) == 0);
  // Sent again, it is complete: the shard that has it drops it.
  auto after = ps.ConnectWorker(1);
  CHECK(PsDaemon::Push(after.get(), ps.Frame(1, 1, {One()})).ok());
  CHECK(Value(&ps, 1) == 1);
  CHECK(Value(&ps, 2) == 1);
}

TEST_CASE("what depends on shards of several lanes runs alone in all of them", "[ps_lanes]") {
  constexpr ClosureId kEach = 300;
  PsDaemon ps(0, 2);
  REQUIRE(ps.Create({Counter(1), Counter(2), Counter(3)}).ok());
  // Counter 3, in lane 0, takes what counter 2, in lane 1, was.
  const graph::Function both = Build([](graph::GraphBuilder* b) {
    const Output one = b->Argument("one", DType::kI64, Shape{1});
    const Output first = b->Op("ReadVariable", {}, ReadCounter(1));
    const Output second = b->Op("ReadVariable", {}, ReadCounter(2));
    b->Target("AssignAddVariable", {one}, ShardOf(1));
    b->Target("AssignAddVariable", {one}, ShardOf(2));
    b->Target("AssignVariable", {second}, ShardOf(3));
    b->Result("first", first);
    b->Result("second", second);
  });
  REQUIRE(ps.Register(1, both).ok());
  REQUIRE(ps.Register(2, AddOne({4})).ok());  // in lane 1, in between
  REQUIRE(ps.Create({Counter(4)}).ok());
  std::vector<std::unique_ptr<PsPeer>> workers;
  for (int w = 0; w < 3; ++w) workers.push_back(ps.ConnectWorker(0, w));
  std::vector<int> torn(3), failed(3);
  std::vector<std::thread> threads;
  for (size_t w = 0; w < workers.size(); ++w) {
    threads.emplace_back([&, w] {
      for (ClosureId c = 1; c <= kEach; ++c) {
        const bool alone = w < 2;
        workers[w]->Send(ps.Frame(alone ? 1 : 2, w * kEach + c, {One()}));
        auto reply =
            function::DecodeSegmentReply(workers[w]->TryReceive().value_or(net::Message()));
        if (!reply.ok() || !reply->status.ok() || reply->tensors.size() != (alone ? 2u : 0u)) {
          ++failed[w];
        } else if (alone &&
                   reply->tensors[0].data<int64_t>()[0] != reply->tensors[1].data<int64_t>()[0]) {
          ++torn[w];
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failed == std::vector<int>{0, 0, 0});
  CHECK(torn == std::vector<int>{0, 0, 0});
  CHECK(Value(&ps, 1) == 2 * kEach);
  CHECK(Value(&ps, 2) == 2 * kEach);
  CHECK(Value(&ps, 3) == 2 * kEach - 1);
  CHECK(Value(&ps, 4) == kEach);
}

// Two tables in two shards each, a dense variable, a constant, ids that both tables share.
std::vector<proto::ShardSpec> Specs() {
  std::vector<proto::ShardSpec> specs =
      SplitOf(VariableOf("users", {40, 4}, true, OptimizerOf("adagrad")), 2, "mod", 1);
  for (auto& s :
       SplitOf(VariableOf("items", {30, 4}, true, OptimizerOf("momentum")), 2, "div", 3)) {
    specs.push_back(s);
  }
  specs.push_back(WholeOf(VariableOf("w", {3, 2}, false, OptimizerOf("adam")), 5));
  for (auto& spec : specs) spec.mutable_variable()->mutable_initializer()->set_kind("normal");
  return specs;
}

graph::Function Step() {
  return Build([](graph::GraphBuilder* b) {
    const Output ids = b->Argument("ids", DType::kI64, Shape{kUnknownDim});
    const Output rows = b->Argument("rows", DType::kF32, Shape{kUnknownDim, 4});
    const Output w = b->Argument("w", DType::kF32, Shape{3, 2});
    for (const int id : {1, 2, 3, 4}) {
      b->Result(absl::StrCat("rows", id),
                b->Op("GatherShard", {ids}, ReadOf(id, Shape{id < 3 ? 20 : 15, 4})));
    }
    // What follows from the frame alone may be computed in every lane.
    const graph::GraphBuilder::DeviceScope on_ps(b, "/job:ps/task:0");
    const Output twice = b->Op("Add", {rows, rows});
    for (const int id : {1, 2, 3, 4}) b->Target("ApplySparse", {ids, twice}, ShardOf(id));
    b->Result("w", b->Op("ReadVariable", {}, ReadOf(5, Shape{3, 2})));
    b->Target("ApplyDense", {w}, ShardOf(5));
    b->Target("AssignAddVariable", {b->Constant(Tensor::Zeros(DType::kF32, Shape{3, 2}))},
              ShardOf(5));
  });
}

TEST_CASE("a segment is cut by lanes, but for what depends on shards of several", "[ps_lanes]") {
  const function::Partition partition =
      function::PartitionFunction(Step(), 1, [](ShardId) { return 0; }).value();
  const graph::Function& segment = partition.segments[0][0];
  const auto whole = function::CompiledFunction::Compile(segment).value();
  const auto lane_of = [](ShardId id) { return id == 9 ? -1 : static_cast<int>(id) % 3; };
  const auto plan = CutByLanes({whole}, lane_of).value();
  CHECK(IsCutFor(*plan, lane_of));
  CHECK_FALSE(IsCutFor(*plan, [](ShardId) { return 0; }));
  CHECK(IsCutFor(*plan, [](ShardId) { return -1; }));
  REQUIRE(plan->segments.size() == 1);
  CHECK(plan->segments[0].lanes == std::vector<int>{0, 1, 2});
  REQUIRE(plan->segments[0].pieces.size() == 3);
  std::vector<int> last_takers(segment.arguments.size()), results(segment.results.size());
  for (const LanePiece& piece : plan->segments[0].pieces) {
    CHECK(piece.function->function().arguments.size() == piece.inputs.size());
    CHECK(piece.function->function().results.size() == piece.results.size());
    for (const LanePiece::Input& input : piece.inputs) {
      if (input.last) ++last_takers[static_cast<size_t>(input.argument)];
    }
    for (const int result : piece.results) ++results[static_cast<size_t>(result)];
    // Shards 1 and 4 are of lane 1, 2 and 5 of lane 2, and 3 alone of lane 0.
    CHECK(piece.results.size() == (piece.lane == 0 ? 1 : 2));
    CHECK(piece.inputs.size() == (piece.lane == 2 ? 3 : 2));
  }
  CHECK(last_takers == std::vector<int>(segment.arguments.size(), 1));
  CHECK(results == std::vector<int>(segment.results.size(), 1));

  const auto one = CutByLanes({whole}, [](ShardId) { return 4; }).value();
  REQUIRE(one->segments[0].pieces.size() == 1);
  CHECK(one->segments[0].pieces[0].lane == 4);
  CHECK(one->segments[0].pieces[0].function == whole);

  const graph::Function copy = Build([](graph::GraphBuilder* b) {
    b->Target("AssignVariable", {b->Op("ReadVariable", {}, ReadCounter(1))}, ShardOf(2));
  });
  const auto spans =
      CutByLanes({function::CompiledFunction::Compile(copy).value()}, lane_of).value();
  CHECK(spans->segments[0].pieces.empty());
  CHECK(spans->segments[0].lanes == std::vector<int>{1, 2});
}

net::Message StepFrame(const PsDaemon& ps, ClosureId closure) {
  return ps.Frame(1, closure,
                  {Ids({static_cast<int64_t>(closure % 13), 14}),
                   RandomTensor(Shape{2, 4}, closure), RandomTensor(Shape{3, 2}, closure + 1)});
}

std::string BytesOf(const Tensor& tensor) {
  return std::string(static_cast<const char*>(tensor.raw()), tensor.bytes());
}

std::vector<std::string> RowsOf(PsDaemon* ps) {
  std::vector<std::string> rows;
  for (const auto& spec : Specs()) {
    for (const int part : {0, 1}) rows.push_back(ps->Rows(spec, part).value());
  }
  return rows;
}

const std::vector<ShardId> kAll = {5, 1, 4, 3, 2};

TEST_CASE("replies, rows and files are the same with any number of lanes", "[ps_lanes]") {
  const DataFiles files;
  std::vector<std::string> answers, rows, saved_files;
  for (const int lanes : {1, 2, 3, 7}) {
    INFO(lanes << " lanes");
    PsDaemon ps(0, lanes);
    REQUIRE(ps.Create(Specs()).ok());
    REQUIRE(ps.Register(1, Step()).ok());
    auto worker = ps.ConnectWorker(0, 5);
    std::vector<std::string> got;
    for (ClosureId c = 1; c <= 12; ++c) {
      worker->Send(StepFrame(ps, c));
      auto reply = function::DecodeSegmentReply(worker->Receive());
      REQUIRE(reply.ok());
      INFO(reply->status.ToString());
      REQUIRE(reply->status.ok());
      REQUIRE(reply->tensors.size() == 5);
      for (const Tensor& tensor : reply->tensors) got.push_back(BytesOf(tensor));
    }
    // Two in one message, the first of which is known.
    worker->Send(
        function::JoinMessages(net::MessageType::kFrames, {StepFrame(ps, 12), StepFrame(ps, 13)}));
    net::Message joined = worker->Receive();
    REQUIRE(joined.type == static_cast<uint16_t>(net::MessageType::kFrameReplies));
    auto replies = function::SplitMessages(std::move(joined));
    REQUIRE(replies.ok());
    for (net::Message& reply : *replies) {
      const function::SegmentReply part = function::DecodeSegmentReply(std::move(reply)).value();
      for (const Tensor& tensor : part.tensors) got.push_back(BytesOf(tensor));
    }
    const std::string directory = files.Path(absl::StrCat("lanes", lanes));
    REQUIRE(env::NewRealFileSystem()->MakeDirs(directory).ok());
    const auto saved = ps.Save(directory, kAll);
    INFO(saved.status().ToString());
    REQUIRE(saved.ok());
    REQUIRE(saved->shards_size() == 5);
    std::vector<std::string> contents;
    for (int i = 0; i < 5; ++i) {
      CHECK(saved->shards(i).shard().id() == kAll[static_cast<size_t>(i)]);
      CHECK(saved->shards(i).applied() == 13);
      contents.push_back(env::NewRealFileSystem()
                             ->Read(absl::StrCat(directory, "/", saved->shards(i).file()))
                             .value());
    }
    const proto::TaskStatus status = ps.Status();
    REQUIRE(status.shards_size() == 5);
    for (int i = 0; i < 5; ++i) {
      CHECK(status.shards(i).shard() == static_cast<uint32_t>(i + 1));
      CHECK(status.shards(i).updates_applied() == 13);
      CHECK(status.shards(i).duplicates_dropped() == 1);
      if (i < 4) CHECK(status.shards(i).rows_pulled() == 28);
    }
    CHECK(status.rows() == 20 + 20 + 15 + 15 + 3);
    CHECK(status.segments_run() == 13);  // frames
    CHECK(status.frames_received() > 13);
    CHECK(status.bytes_sent() > 0);

    const std::vector<std::string> present = RowsOf(&ps);
    if (lanes == 1) {
      answers = got;
      rows = present;
      saved_files = contents;
    }
    CHECK(got == answers);
    CHECK(present == rows);
    CHECK(contents == saved_files);
    // On another number of lanes, over what is there.
    PsDaemon other(0, 4 - lanes % 4);
    REQUIRE(other.Create(Specs()).ok());
    REQUIRE(other.Restore(directory, *saved).ok());
    CHECK(RowsOf(&other) == rows);
    REQUIRE(other.Register(1, Step()).ok());
    auto again = other.ConnectWorker(0);
    CHECK(PsDaemon::Push(again.get(), StepFrame(other, 13)).ok());  // in the ledgers
    CHECK(RowsOf(&other) == rows);
  }
}

TEST_CASE("an error in one lane is the frame's, and leaves every shard whole", "[ps_lanes]") {
  PsDaemon ps(0, 2);
  REQUIRE(ps.Create(Specs()).ok());
  REQUIRE(ps.Register(1, Step()).ok());
  const std::vector<std::string> before = RowsOf(&ps);
  auto worker = ps.ConnectWorker(0);
  // Id 17 is a row of the users' shards only, and they are in both lanes with the items'.
  const absl::Status error = PsDaemon::Push(
      worker.get(),
      ps.Frame(1, 1, {Ids({17}), RandomTensor(Shape{1, 4}, 1), RandomTensor(Shape{3, 2}, 1)}));
  INFO(error.ToString());
  CHECK(error.code() == absl::StatusCode::kInvalidArgument);
  REQUIRE(GetDetail(error).has_value());
  CHECK(GetDetail(error)->cause == ErrorCause::kApplication);
  CHECK(RowsOf(&ps) == before);
  // Arguments are looked at before any piece runs.
  const absl::Status shape = PsDaemon::Push(
      worker.get(),
      ps.Frame(1, 2, {Ids({1}), RandomTensor(Shape{1, 4}, 1), RandomTensor(Shape{3}, 1)}));
  CHECK(shape.code() == absl::StatusCode::kInvalidArgument);
  CHECK(RowsOf(&ps) == before);
  CHECK(PsDaemon::Push(worker.get(), ps.Frame(1, 3, {})).code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(PsDaemon::Push(worker.get(), ps.Frame(8, 4, {})).code() == absl::StatusCode::kNotFound);
  CHECK(ps.Status().segments_run() == 4);
  CHECK(PsDaemon::Push(worker.get(), StepFrame(ps, 5)).ok());
  // A shard whose lane finds nothing wrong takes its update.
  const graph::Function two = Build([](graph::GraphBuilder* b) {
    const Output ids = b->Argument("ids", DType::kI64, Shape{kUnknownDim});
    const Output rows = b->Argument("rows", DType::kF32, Shape{kUnknownDim, 4});
    for (const int id : {1, 4}) b->Target("ApplySparse", {ids, rows}, ShardOf(id));
  });
  REQUIRE(ps.Register(2, two).ok());
  const std::string users = ps.Rows(Specs()[0]).value(), items = ps.Rows(Specs()[3]).value();
  const auto update = [&](int64_t id) {
    return ps.Frame(2, 6, {Ids({id}), RandomTensor(Shape{1, 4}, 6)});
  };
  CHECK_FALSE(PsDaemon::Push(worker.get(), update(17)).ok());
  CHECK(ps.Rows(Specs()[0]).value() != users);
  CHECK(ps.Rows(Specs()[3]).value() == items);
}

TEST_CASE("plans follow shards that come after them or come back", "[ps_lanes]") {
  PsDaemon ps(0, 3);
  REQUIRE(ps.Register(1, AddOne({1, 2, 3})).ok());
  auto worker = ps.ConnectWorker(0);
  CHECK(PsDaemon::Push(worker.get(), ps.Frame(1, 1, {One()})).code() ==
        absl::StatusCode::kNotFound);
  REQUIRE(ps.Create({Counter(3), Counter(2), Counter(1)}).ok());
  CHECK(PsDaemon::Push(worker.get(), ps.Frame(1, 2, {One()})).ok());
  for (ShardId id : {1, 2, 3}) CHECK(Value(&ps, id) == 1);
  REQUIRE(ps.Setup(1, {2}).ok());
  REQUIRE(ps.Create({Counter(1), Counter(3)}).ok());
  auto after = ps.ConnectWorker(1);
  CHECK(PsDaemon::Push(after.get(), ps.Frame(1, 2, {One()})).ok());
  for (ShardId id : {1, 2, 3}) CHECK(Value(&ps, id) == 1);
}

TEST_CASE("a recovery stops the save of every lane, and the next one waits for them",
          "[ps_lanes]") {
  const DataFiles files;
  const std::string directory = files.Path("a");
  REQUIRE(env::NewRealFileSystem()->MakeDirs(directory).ok());
  PsDaemon ps(0, 2);
  REQUIRE(ps.Create(Specs()).ok());
  ps.Send(PsDaemon::SaveRequest(directory, kAll));
  REQUIRE(ps.env.step_pool.RunOne());  // the first lane has written a file
  proto::ControlRequest setup;
  setup.mutable_setup_ps()->set_generation(1);
  for (const ShardId id : kAll) setup.mutable_setup_ps()->add_keep(id);
  ps.Send(setup);
  CHECK(ps.coordinator->ReceiveStatus().ok());
  ps.Send(PsDaemon::SaveRequest(directory, kAll));
  CHECK_FALSE(ps.coordinator->HasMessage());
  REQUIRE(ps.env.step_pool.RunOne());
  CHECK(ps.coordinator->ReceiveStatus().code() == absl::StatusCode::kAborted);
  ps.env.step_pool.RunAll();
  const proto::ControlReply again = ps.coordinator->ReceiveReply();
  CHECK(cluster::FromProto(again.status()).ok());
  CHECK(again.shards_saved().shards_size() == 5);
  // A disk that fills up in one lane ends the whole save.
  ps.env.disk.room = 100;
  const auto full = ps.Save(directory, kAll);
  CHECK(absl::IsResourceExhausted(full.status()));
  ps.env.disk.room = int64_t{1} << 40;
  CHECK(ps.Save(directory, kAll).ok());
  ps.Send(PsDaemon::SaveRequest(directory, kAll));
  CHECK(ps.env.step_pool.DropAll() == 1);
  ps.Stop();
}

}  // namespace
}  // namespace coxswain::ps
