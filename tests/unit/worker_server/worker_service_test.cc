// A worker among a coordinator and parameter servers that the test plays.
#include "worker_server/worker_service.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/function/partition.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/serialize.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"
#include "tests/testing/fake_tasks.h"
#include "tests/testing/families.h"
#include "tests/testing/forwarding.h"
#include "tests/testing/registry.h"
#include "tests/testing/slow_file.h"

namespace coxswain::worker {
namespace {

using namespace testing;

constexpr Epoch kEpoch = 9;
constexpr absl::Duration kNote = Execution::kProgressInterval;

struct World {
  std::unique_ptr<net::Transport> transport = net::NewInProcessTransport();
  TestEnv env;
  FakePs ps0{transport.get(), "ps:0"};
  FakePs ps1{transport.get(), "ps:1"};
  WorkerService worker{&env, transport.get(), &ClusterOps(),
                       cluster::DaemonOptions{"worker", 4, "worker"}};
  std::unique_ptr<FakeCoordinator> coordinator;

  World() {
    REQUIRE(worker.Start().ok());
    Connect();
  }
  void Connect() {
    coordinator = std::make_unique<FakeCoordinator>(transport.get(), "worker", kEpoch);
  }
  // An incarnation of 0 is an absent PS.
  static proto::ControlRequest SetUp(Generation generation, Incarnation of0, Incarnation of1) {
    proto::ControlRequest request;
    proto::SetupWorker* setup = request.mutable_setup_worker();
    setup->set_generation(generation);
    for (const char* address : {"ps:0", "ps:1"}) setup->add_ps_addresses(address);
    for (const Incarnation i : {of0, of1}) setup->add_ps_incarnations(i);
    return request;
  }
};

// `factor` times the sum of the rows of a variable on ps:`ps` that an argument names: the one of
// that `column` or, when it is empty, the closure's own.
proto::ControlRequest Plan(PlanId id, int ps, const std::string& column = "", float factor = 1) {
  graph::GraphBuilder b("rows", &ClusterOps());
  Output ids = b.Argument("ids", DType::kI64, Shape{kUnknownDim});
  Output rows = b.Op("GatherShard", {ids}, ReadOf(ps, Shape{100, 1}));
  b.Result("sum", b.Op("Mul", {b.Op("ReduceSum", {rows}), b.Scalar(factor)}));
  auto function = b.Finish();
  REQUIRE(function.ok());
  auto partition = function::PartitionFunction(*function, 2, PsOfSameNumber);
  REQUIRE(partition.ok());
  proto::ControlRequest request;
  proto::RegisterPlan* plan = request.mutable_register_plan();
  plan->set_plan(id);
  *plan->mutable_worker() = graph::ToProto(partition->worker);
  proto::ArgumentSource* source = plan->add_sources();
  source->set_column(column);
  return request;
}

proto::ControlRequest Data(DatasetId id, const proto::DatasetSpec& spec) {
  proto::ControlRequest request;
  request.mutable_register_dataset()->set_dataset(id);
  *request.mutable_register_dataset()->mutable_spec() = spec;
  return request;
}

function::ClosureRequest Closure(ClosureId id, PlanId plan) {
  function::ClosureRequest closure;
  closure.closure = id;
  closure.plan = plan;
  closure.attempt = 1;
  closure.arguments.push_back(Tensor::FromVector<int64_t>({3, 5}));
  return closure;
}

function::ClosureRequest OnTicket(ClosureId id, PlanId plan, DatasetId dataset, int64_t begin,
                                  int64_t end) {
  function::ClosureRequest closure = Closure(id, plan);
  closure.arguments.clear();
  closure.dataset = dataset;
  closure.ticket = {Part::kTraining, 0, begin, end};
  return closure;
}

// As many rows as the frame asks for, all of `value`.
void AnswerRows(const FakePs::Frame& frame, float value) {
  REQUIRE(frame.request.tensors.size() == 1);
  const int64_t count = frame.request.tensors[0].dim(0);
  frame.Answer({Tensor::FromVector<float>(std::vector<float>(static_cast<size_t>(count), value),
                                          Shape{count, 1})
                    .value()});
}

std::vector<int64_t> IdsOf(const FakePs::Frame& frame) {
  const absl::Span<const int64_t> ids = frame.request.tensors.at(0).values<int64_t>();
  return {ids.begin(), ids.end()};
}

proto::DatasetSpec Rows(const std::string& path) {
  proto::DatasetSpec spec = CsvSpec(path);
  AddNumeric(&spec, "x");
  spec.set_example_ids(true);
  return spec;
}

std::string TwelveRows() {
  std::string csv = "x\n";
  for (int i = 0; i < 12; ++i) absl::StrAppend(&csv, i, "\n");
  return csv;
}

TEST_CASE("a worker tells each PS its generation, and has no channel to an absent one",
          "[worker]") {
  World w;
  w.coordinator->Must(World::SetUp(6, 11, 0));
  const proto::HelloRequest hello = w.ps0.hellos.Take("the hello");
  CHECK(hello.generation() == 6);
  CHECK(hello.session() == FakeCoordinator::IdOf(kEpoch));
  CHECK(hello.expected_incarnation() == 11);
  CHECK(hello.task() == 4);
  w.coordinator->Must(Plan(1, 0));
  w.coordinator->Must(Plan(2, 1));
  w.coordinator->Run(Closure(1, 1));
  AnswerRows(w.ps0.frames.Take("a frame"), 2);
  const function::ClosureReply done = w.coordinator->TakeDone();
  REQUIRE(done.status.ok());
  CHECK(done.results[0].values<float>()[0] == 4);
  w.coordinator->Run(Closure(2, 2));
  const function::ClosureReply lost = w.coordinator->TakeDone();
  CHECK(CauseOf(lost.status) == ErrorCause::kTaskLost);
  CHECK(TaskOf(lost.status) == "/job:ps/task:1");
  CHECK(w.ps1.hellos.empty());
}

TEST_CASE("a worker's counters go on when it is set up anew and when its session ends",
          "[worker]") {
  World w;
  const auto collect = [&] { return w.worker.CollectMetrics(absl::Seconds(60)); };
  uint64_t sent = 0;
  for (ClosureId closure = 1; closure <= 3; ++closure) {
    auto set_up = World::SetUp(static_cast<Generation>(closure), 11, 12);
    set_up.mutable_setup_worker()->set_new_streams(true);
    w.coordinator->Must(set_up);
    w.coordinator->Must(Plan(1, 0));
    w.coordinator->Run(Closure(closure, 1));
    AnswerRows(w.ps0.frames.Take("a frame"), 2);
    REQUIRE(w.coordinator->TakeDone().status.ok());
    const metrics::Families families = collect();
    CHECK(ValueOf(families, "coxswain_worker_closures_total", "completed") == closure);
    CHECK(ValueOf(families, "coxswain_worker_steps_total") == closure);
    const double now = ValueOf(families, "coxswain_worker_ps_sent_bytes_total", "0");
    CHECK(now > static_cast<double>(sent));
    sent = static_cast<uint64_t>(now);
    CHECK(ValueOf(families, "coxswain_worker_ps_received_bytes_total", "0") >= 8.0 * closure);
    CHECK(ValueOf(families, "coxswain_worker_session_held") == 1);
  }
  proto::ControlRequest end;
  end.mutable_end_session();
  w.coordinator->Must(end);
  const metrics::Families after = collect();
  CHECK(ValueOf(after, "coxswain_worker_closures_total", "completed") == 3);
  CHECK(ValueOf(after, "coxswain_worker_ps_sent_bytes_total", "0") == static_cast<double>(sent));
  CHECK(ValueOf(after, "coxswain_worker_session_held") == 0);
}

TEST_CASE("a worker without any PS is set up at once", "[worker]") {
  World w;
  w.coordinator->Must(World::SetUp(1, 0, 0));
}

TEST_CASE("the same set-up again keeps channels and the calls on them", "[worker]") {
  World w;
  w.coordinator->Must(World::SetUp(1, 11, 12));
  w.coordinator->Must(Plan(1, 0));
  w.coordinator->Run(Closure(1, 1));
  const FakePs::Frame frame = w.ps0.frames.Take("a frame");
  w.coordinator->Must(World::SetUp(1, 11, 12));
  // Only the PS that is a new one gets a new channel.
  w.coordinator->Must(World::SetUp(1, 11, 13));
  AnswerRows(frame, 2);
  CHECK(w.coordinator->TakeDone().status.ok());
  w.ps0.hellos.Take("the hello");
  CHECK(w.ps0.hellos.empty());
  CHECK(w.ps1.hellos.Take("the first hello").expected_incarnation() == 12);
  CHECK(w.ps1.hellos.Take("the second hello").expected_incarnation() == 13);
  CHECK(w.ps1.hellos.empty());
}

TEST_CASE("closures of the old generation end at once when a worker is set up for the next",
          "[worker]") {
  World w;
  w.coordinator->Must(World::SetUp(1, 11, 12));
  w.coordinator->Must(Plan(1, 0));
  w.coordinator->Run(Closure(1, 1));
  w.ps0.frames.Take("a frame that is never answered");
  w.coordinator->Must(World::SetUp(2, 11, 12));
  const function::ClosureReply lost = w.coordinator->TakeDone();
  CHECK(lost.closure == 1);
  CHECK(CauseOf(lost.status) == ErrorCause::kTaskLost);
  CHECK(GetDetail(lost.status)->retryable);
  CHECK(w.ps0.hellos.Take("the first hello").generation() == 1);
  CHECK(w.ps0.hellos.Take("the second hello").generation() == 2);
  w.coordinator->Run(Closure(2, 1));
  AnswerRows(w.ps0.frames.Take("a frame"), 1);
  CHECK(w.coordinator->TakeDone().status.ok());
}

TEST_CASE("a closure that was sent before a recovery and comes after it does not run", "[worker]") {
  World w;
  w.coordinator->Must(World::SetUp(2, 11, 12));
  w.coordinator->Must(Plan(1, 0));
  function::ClosureRequest late = Closure(1, 1);
  late.generation = 1;
  w.coordinator->Run(std::move(late));
  w.coordinator->Run(Closure(2, 1));
  const FakePs::Frame frame = w.ps0.frames.Take("a frame");
  CHECK(frame.request.closure == 2);
  AnswerRows(frame, 1);
  CHECK(w.coordinator->TakeDone().closure == 2);
  CHECK(w.ps0.frames.empty());
}

TEST_CASE("an equal plan again changes nothing, another one replaces it", "[worker]") {
  World w;
  w.coordinator->Must(World::SetUp(1, 11, 12));
  const auto result = [&] {
    w.coordinator->Run(Closure(1, 1));
    AnswerRows(w.ps0.frames.Take("a frame"), 1);
    const function::ClosureReply done = w.coordinator->TakeDone();
    REQUIRE(done.status.ok());
    return done.results[0].values<float>()[0];
  };
  w.coordinator->Must(Plan(1, 0));
  w.coordinator->Must(Plan(1, 0));
  CHECK(result() == 2);
  w.coordinator->Must(Plan(1, 0, "", 10));
  CHECK(result() == 20);
  // A wrong one harms nothing.
  proto::ControlRequest wrong = Plan(1, 0);
  wrong.mutable_register_plan()->clear_sources();
  CHECK_FALSE(cluster::FromProto(w.coordinator->Request(wrong).status()).ok());
  CHECK(result() == 20);
}

TEST_CASE("a data set is loaded once however often it is asked for", "[worker]") {
  World w;
  const DataFiles files;
  SlowFile slow(files.Path("slow.csv"));
  const uint64_t first = w.coordinator->Ask(Data(1, Rows(slow.path())));
  const uint64_t second = w.coordinator->Ask(Data(1, Rows(slow.path())));
  w.coordinator->Must(Plan(1, 0));  // the two before it are not answered
  slow.Write(TwelveRows());
  std::vector<uint64_t> fingerprints;
  for (const uint64_t id : {first, second}) {
    const proto::ControlReply reply = w.coordinator->TakeReply();
    CHECK(reply.request() == id);
    REQUIRE(reply.has_dataset_ready());
    CHECK(reply.dataset_ready().examples(0) == 12);
    fingerprints.push_back(reply.dataset_ready().fingerprint());
  }
  std::filesystem::remove(slow.path());
  const proto::ControlReply third = w.coordinator->Request(Data(1, Rows(slow.path())));
  REQUIRE(third.has_dataset_ready());
  CHECK(third.dataset_ready().fingerprint() == fingerprints[0]);
  CHECK(fingerprints[0] == fingerprints[1]);
  // Another content is loaded; what could not be loaded is tried again.
  const std::string other = files.Path("other.csv");
  const absl::Status missing =
      cluster::FromProto(w.coordinator->Request(Data(1, Rows(other))).status());
  CHECK_THAT(std::string(missing.message()), Catch::Matchers::Contains("other.csv"));
  files.Write("other.csv", "x\n1\n2\n");
  const proto::ControlReply now = w.coordinator->Request(Data(1, Rows(other)));
  REQUIRE(now.has_dataset_ready());
  CHECK(now.dataset_ready().examples(0) == 2);
}

TEST_CASE("a data set that is replaced while it is loading gives way to the new one", "[worker]") {
  World w;
  const DataFiles files;
  SlowFile slow(files.Path("slow.csv"));
  const uint64_t old = w.coordinator->Ask(Data(1, Rows(slow.path())));
  w.coordinator->Must(World::SetUp(1, 11, 12));
  w.coordinator->Must(Plan(1, 0, "example_id"));
  w.coordinator->Run(OnTicket(1, 1, 1, 0, 2));
  const uint64_t next = w.coordinator->Ask(Data(1, Rows(files.Write("next.csv", "x\n1\n2\n"))));
  const proto::ControlReply replaced = w.coordinator->TakeReply();
  CHECK(replaced.request() == old);
  CHECK(cluster::FromProto(replaced.status()).code() == absl::StatusCode::kAborted);
  const proto::ControlReply ready = w.coordinator->TakeReply();
  CHECK(ready.request() == next);
  CHECK(ready.dataset_ready().examples(0) == 2);
  // The closure that waited runs on the new one, and the old one's late end is not heard.
  const FakePs::Frame frame = w.ps0.frames.Take("a frame");
  CHECK(IdsOf(frame) == std::vector<int64_t>{0, 1});
  AnswerRows(frame, 1);
  CHECK(w.coordinator->TakeDone().status.ok());
  slow.Write(TwelveRows());
  const proto::ControlReply still = w.coordinator->Request(Data(1, Rows(files.Path("next.csv"))));
  CHECK(still.dataset_ready().examples(0) == 2);
}

TEST_CASE("a data set that is released is there no more, and loads again if it comes back",
          "[worker]") {
  World w;
  const DataFiles files;
  const std::string rows = files.Write("rows.csv", "x\n1\n2\n");
  w.coordinator->Must(World::SetUp(1, 11, 12));
  w.coordinator->Must(Plan(1, 0, "example_id"));
  REQUIRE(w.coordinator->Request(Data(1, Rows(rows))).has_dataset_ready());
  proto::ControlRequest release;
  release.mutable_release_dataset()->set_dataset(1);
  w.coordinator->Must(release);
  w.coordinator->Must(release);  // it may be said twice
  w.coordinator->Run(OnTicket(1, 1, 1, 0, 2));
  CHECK(w.coordinator->TakeDone().status.code() == absl::StatusCode::kNotFound);
  CHECK(w.coordinator->Request(Data(1, Rows(rows))).has_dataset_ready());
  // Who waits for one that is loading is told.
  SlowFile slow(files.Path("slow.csv"));
  const uint64_t loading = w.coordinator->Ask(Data(2, Rows(slow.path())));
  w.coordinator->Run(OnTicket(2, 1, 2, 0, 2));
  release.mutable_release_dataset()->set_dataset(2);
  const uint64_t released = w.coordinator->Ask(release);
  const proto::ControlReply told = w.coordinator->TakeReply();
  CHECK(told.request() == loading);
  CHECK(cluster::FromProto(told.status()).code() == absl::StatusCode::kCancelled);
  CHECK(w.coordinator->TakeReply().request() == released);
  CHECK(w.coordinator->TakeDone().status.code() == absl::StatusCode::kCancelled);
  slow.Write(TwelveRows());
}

TEST_CASE("a set-up that names all that is current takes away what was released meanwhile",
          "[worker]") {
  World w;
  const DataFiles files;
  const std::string rows = files.Write("rows.csv", "x\n1\n2\n");
  w.coordinator->Must(World::SetUp(1, 11, 12));
  for (const uint32_t id : {1u, 2u}) {
    w.coordinator->Must(Plan(id, 0, "example_id"));
    REQUIRE(w.coordinator->Request(Data(id, Rows(rows))).has_dataset_ready());
  }
  // One that names nothing keeps everything, as that of an earlier version.
  w.coordinator->Must(World::SetUp(1, 11, 12));
  proto::ControlRequest set_up = World::SetUp(1, 11, 12);
  set_up.mutable_setup_worker()->set_only_these(true);
  set_up.mutable_setup_worker()->add_plans(2);
  set_up.mutable_setup_worker()->add_datasets(2);
  w.coordinator->Must(set_up);
  w.coordinator->Run(OnTicket(1, 2, 2, 0, 2));
  AnswerRows(w.ps0.frames.Take("a frame"), 1);
  CHECK(w.coordinator->TakeDone().status.ok());
  w.coordinator->Run(OnTicket(2, 2, 1, 0, 2));  // of the data set that is gone
  CHECK(w.coordinator->TakeDone().status.code() == absl::StatusCode::kNotFound);
  w.coordinator->Run(OnTicket(3, 1, 2, 0, 2));  // and the plan
  CHECK(w.coordinator->TakeDone().status.code() == absl::StatusCode::kNotFound);
}

TEST_CASE("closures that wait for their data set can be cancelled", "[worker]") {
  World w;
  const DataFiles files;
  SlowFile slow(files.Path("slow.csv"));
  w.coordinator->Must(World::SetUp(1, 11, 12));
  w.coordinator->Must(Plan(1, 0, "example_id"));
  w.coordinator->Ask(Data(1, Rows(slow.path())));
  for (ClosureId id = 1; id <= 4; ++id) w.coordinator->Run(OnTicket(id, 1, 1, 0, 3));
  proto::ControlRequest cancel;
  cancel.mutable_cancel_closures()->add_closures(2);
  cancel.mutable_cancel_closures()->add_closures(3);
  w.coordinator->Must(cancel);
  for (const ClosureId id : {2, 3}) {
    const function::ClosureReply done = w.coordinator->TakeDone();
    CHECK(done.closure == id);
    CHECK(done.attempt == 1);
    CHECK(done.status.code() == absl::StatusCode::kCancelled);
    CHECK(CauseOf(done.status) == ErrorCause::kCancelled);
  }
  slow.Write(TwelveRows());
  CHECK(w.coordinator->TakeReply().has_dataset_ready());
  for (int i = 0; i < 2; ++i) {
    const FakePs::Frame frame = w.ps0.frames.Take("a frame");
    CHECK((frame.request.closure == 1 || frame.request.closure == 4));
    AnswerRows(frame, 1);
    CHECK(w.coordinator->TakeDone().status.ok());
  }
}

TEST_CASE("a closure that runs is cancelled after the step it is at", "[worker]") {
  World w;
  w.coordinator->Must(World::SetUp(1, 11, 12));
  w.coordinator->Must(Plan(1, 0));
  proto::ControlRequest cancel;
  const bool by_id = GENERATE(true, false);
  if (by_id) cancel.mutable_cancel_closures()->add_closures(1);
  cancel.mutable_cancel_closures();  // all
  function::ClosureRequest closure = Closure(1, 1);
  closure.steps = 5;
  w.coordinator->Run(closure);
  AnswerRows(w.ps0.frames.Take("the first frame"), 1);
  const FakePs::Frame second = w.ps0.frames.Take("the second frame");
  CHECK(second.request.step == 1);
  w.coordinator->Must(cancel);
  AnswerRows(second, 1);
  const function::ClosureReply done = w.coordinator->TakeDone();
  CHECK(CauseOf(done.status) == ErrorCause::kCancelled);
  CHECK(done.status.code() == absl::StatusCode::kCancelled);
  CHECK(done.steps_done == 2);
  CHECK(w.ps0.frames.empty());
}

TEST_CASE("of a step with backups a closure is cancelled in the middle of its computation",
          "[worker]") {
  World w;
  w.coordinator->Must(World::SetUp(1, 11, 12));
  w.coordinator->Must(Plan(1, 0));
  function::ClosureRequest closure = Closure(1, 1);
  closure.steps = 1;
  closure.sync = {.first = 1, .count = 1, .backup = 1};
  w.coordinator->Run(closure);
  const FakePs::Frame frame = w.ps0.frames.Take("the look-up");
  proto::ControlRequest cancel;
  cancel.mutable_cancel_closures()->add_closures(1);
  w.coordinator->Must(cancel);
  AnswerRows(frame, 1);
  const function::ClosureReply done = w.coordinator->TakeDone();
  CHECK(CauseOf(done.status) == ErrorCause::kCancelled);
  CHECK(done.steps_done == 0);
}

TEST_CASE("a packed closure resumes at its first step, on the same examples", "[worker]") {
  World w;
  const DataFiles files;
  w.coordinator->Must(World::SetUp(1, 11, 12));
  w.coordinator->Must(Plan(1, 0, "example_id"));
  REQUIRE(w.coordinator->Request(Data(1, Rows(files.Write("rows.csv", TwelveRows()))))
              .has_dataset_ready());
  function::ClosureRequest closure = OnTicket(1, 1, 1, 2, 12);
  closure.steps = 4;
  const auto frames = [&](uint32_t first) {
    closure.first_step = first;
    ++closure.attempt;
    w.coordinator->Run(closure);
    std::vector<std::vector<int64_t>> ids;
    for (uint32_t step = first; step < 4; ++step) {
      const FakePs::Frame frame = w.ps0.frames.Take("a frame");
      CHECK(frame.request.step == step);
      ids.push_back(IdsOf(frame));
      AnswerRows(frame, 1);
    }
    const function::ClosureReply done = w.coordinator->TakeDone();
    CHECK(done.status.ok());
    CHECK(done.attempt == closure.attempt);
    CHECK(done.steps_done == 4);
    return ids;
  };
  const std::vector<std::vector<int64_t>> all = {{2, 3}, {4, 5, 6}, {7, 8}, {9, 10, 11}};
  CHECK(frames(0) == all);
  CHECK(frames(2) == std::vector<std::vector<int64_t>>(all.begin() + 2, all.end()));
  CHECK(frames(3) == std::vector<std::vector<int64_t>>(all.begin() + 3, all.end()));
  for (const uint32_t first : {4u, 5u}) {
    closure.first_step = first;
    w.coordinator->Run(closure);
    CHECK(w.coordinator->TakeDone().status.code() == absl::StatusCode::kInvalidArgument);
  }
  CHECK(w.ps0.frames.empty());
}

TEST_CASE("a packed closure tells how far it is, but not too often", "[worker]") {
  World w;
  w.coordinator->Must(World::SetUp(1, 11, 12));
  w.coordinator->Must(Plan(1, 0));
  function::ClosureRequest closure = Closure(1, 1);
  closure.steps = 9;
  closure.first_step = 1;
  closure.attempt = 3;
  w.coordinator->Run(closure);
  const auto step = [&](uint32_t number, absl::Duration takes) {
    const FakePs::Frame frame = w.ps0.frames.Take("a frame");
    CHECK(frame.request.step == number);
    w.env.Advance(takes);
    AnswerRows(frame, 1);
  };
  const auto note = [&](uint32_t steps_done) {
    const function::ClosureReply progress = w.coordinator->TakeProgress();
    CHECK(progress.session == FakeCoordinator::IdOf(kEpoch));
    CHECK(progress.closure == 1);
    CHECK(progress.attempt == 3);
    CHECK(progress.steps_done == steps_done);
    CHECK(progress.status.ok());
    CHECK(progress.results.empty());
  };
  step(1, kNote / 2);
  step(2, kNote / 4);
  step(3, kNote / 4);
  note(4);
  step(4, kNote / 2);
  step(5, kNote);
  note(6);
  step(6, absl::ZeroDuration());
  // A failed step is not counted.
  const FakePs::Frame frame = w.ps0.frames.Take("a frame");
  w.env.Advance(kNote);
  frame.Fail(absl::InvalidArgumentError("wrong"));
  const function::ClosureReply done = w.coordinator->TakeDone();
  CHECK(done.steps_done == 7);
  CHECK(done.status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(w.coordinator->no_data());
}

TEST_CASE("the last step of a packed closure is told by its completion alone", "[worker]") {
  World w;
  w.coordinator->Must(World::SetUp(1, 11, 12));
  w.coordinator->Must(Plan(1, 0));
  w.coordinator->Run(Closure(1, 1));
  const FakePs::Frame frame = w.ps0.frames.Take("a frame");
  w.env.Advance(10 * kNote);
  AnswerRows(frame, 1);
  CHECK(w.coordinator->TakeDone().steps_done == 1);
}

TEST_CASE("a worker passes its fault points in the order of the protocol", "[worker]") {
  World w;
  w.coordinator->Must(World::SetUp(1, 11, 12));
  w.coordinator->Must(Plan(1, 0));
  function::ClosureRequest closure = Closure(1, 1);
  closure.steps = 2;
  w.coordinator->Run(closure);
  for (int i = 0; i < 2; ++i) AnswerRows(w.ps0.frames.Take("a frame"), 1);
  CHECK(w.coordinator->TakeDone().status.ok());
  for (const char* name : {"worker.closure.received", "worker.step.applied", "worker.step.applied",
                           "worker.closure.done"}) {
    CHECK(w.env.fault_points.Take("a fault point") == name);
  }
  CHECK(w.env.fault_points.empty());
}

TEST_CASE("a coordinator that connects again finds plans and data, and its old closures stopped",
          "[worker]") {
  World w;
  const DataFiles files;
  const std::string rows = files.Write("rows.csv", TwelveRows());
  w.coordinator->Must(World::SetUp(1, 11, 12));
  w.coordinator->Must(Plan(1, 0));
  REQUIRE(w.coordinator->Request(Data(1, Rows(rows))).has_dataset_ready());
  function::ClosureRequest closure = Closure(1, 1);
  closure.steps = 3;
  w.coordinator->Run(closure);
  const FakePs::Frame frame = w.ps0.frames.Take("a frame");
  w.Connect();
  std::filesystem::remove(rows);
  CHECK(w.coordinator->Request(Data(1, Rows(rows))).has_dataset_ready());
  // The next attempt of the same closure, beside the old one, which goes no further.
  closure.attempt = 2;
  closure.generation = 1;
  w.coordinator->Run(closure);
  AnswerRows(frame, 1);
  for (uint32_t step = 0; step < 3; ++step) {
    const FakePs::Frame next = w.ps0.frames.Take("a frame");
    CHECK(next.request.attempt == 2);
    CHECK(next.request.step == step);
    AnswerRows(next, 1);
  }
  const function::ClosureReply done = w.coordinator->TakeDone();
  CHECK(done.attempt == 2);
  CHECK(done.status.ok());
  CHECK(w.ps0.frames.empty());
}

TEST_CASE("a daemon answers a worker's ping, which renews no lease", "[worker]") {
  World w;
  proto::HelloRequest hello = FakeCoordinator::Hello(proto::WORKER, kEpoch);
  hello.set_expected_incarnation(w.worker.incarnation());
  FakeCoordinator other(w.transport.get(), "worker", hello);
  REQUIRE(other.Greeting().ok());
  w.env.Advance(absl::Seconds(61));  // the coordinator's lease is 60 s
  proto::PingRequest ping;
  ping.set_session(FakeCoordinator::IdOf(kEpoch));
  ping.set_low_water(1000);
  other.Send(cluster::EncodeControl(net::MessageType::kPing, ping));
  const auto pong = cluster::DecodeControl<proto::PongReply>(other.TakePong());
  CHECK(pong->incarnation() == w.worker.incarnation());
  CHECK(pong->session() == FakeCoordinator::IdOf(kEpoch));
  // So the next coordinator is let in.
  FakeCoordinator next(w.transport.get(), "worker", kEpoch + 1, kEpoch);
  ping.set_session(FakeCoordinator::IdOf(kEpoch));
  other.Send(cluster::EncodeControl(net::MessageType::kPing, ping));
  CHECK(other.TakeClosed().code() == absl::StatusCode::kFailedPrecondition);
}

// A world whose clock and timers are the test's.
class LeaseEnv final : public ForwardingEnv {
 public:
  absl::Duration Monotonic() override { return now; }
  std::unique_ptr<env::EventLoop> NewLoop() override {
    auto made = std::make_unique<ManualLoop>();
    loop = made.get();
    return made;
  }
  absl::Duration now = absl::Hours(1);
  ManualLoop* loop = nullptr;  // the daemon's
};

TEST_CASE("any message of the coordinator renews its lease, and silence lets another one in",
          "[worker]") {
  const auto transport = net::NewInProcessTransport();
  LeaseEnv env;
  WorkerService worker(&env, transport.get(), &ClusterOps(), {"worker", 4, "worker"});
  REQUIRE(worker.Start().ok());
  FakeCoordinator coordinator(transport.get(), "worker", kEpoch);  // its lease is 60 s
  for (ClosureId id = 1; id <= 3; ++id) {
    env.now += absl::Seconds(50);
    coordinator.Run(Closure(id, 77));  // of a plan that is not there
    CHECK_FALSE(coordinator.TakeDone().status.ok());
    REQUIRE(env.loop->Fire() == 1);
  }
  env.now +=
      absl::Seconds(15);  // too long since the last look at the lease, not since that message
  FakeCoordinator early(transport.get(), "worker",
                        FakeCoordinator::Hello(proto::COORDINATOR, kEpoch + 1));
  CHECK(CauseOf(early.Greeting()) == ErrorCause::kClusterHeld);
  env.now += absl::Seconds(61);
  CHECK(env.loop->Fire() == 1);
  // It may only have stood still: while nobody else comes, it goes on.
  coordinator.Run(Closure(4, 77));
  CHECK_FALSE(coordinator.TakeDone().status.ok());
  env.now += absl::Seconds(61);
  CHECK(env.loop->Fire() == 1);
  FakeCoordinator next(transport.get(), "worker", kEpoch + 1, kEpoch);
  CHECK(coordinator.TakeClosed().code() == absl::StatusCode::kUnavailable);
}

TEST_CASE("a worker that is asked to end tells its coordinator, and lets no other in", "[worker]") {
  World w;
  Mailbox<bool> told;
  w.worker.Terminate([&] { told.Put(true); });
  CHECK(told.Take("the end of Terminate"));
  const absl::Status closed = w.coordinator->TakeClosed();
  CHECK(CauseOf(closed) == ErrorCause::kTerminated);
  CHECK(GetDetail(closed)->retryable);
  CHECK(GetDetail(closed)->incarnation == w.worker.incarnation());
  CHECK(TaskOf(closed) == "/job:worker/task:4");
  FakeCoordinator next(w.transport.get(), "worker",
                       FakeCoordinator::Hello(proto::COORDINATOR, kEpoch + 1));
  CHECK(CauseOf(next.Greeting()) == ErrorCause::kTerminated);
}

}  // namespace
}  // namespace coxswain::worker
