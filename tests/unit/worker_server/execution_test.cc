// An attempt of a closure, step by step: what it does on which thread.
#include <limits>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "runtime/function/partition.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/serialize.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"
#include "tests/testing/failing_memory.h"
#include "tests/testing/fake_tasks.h"
#include "tests/testing/ps_daemon.h"
#include "tests/testing/registry.h"
#include "worker_server/worker_service.h"

namespace coxswain::worker {
namespace {

using namespace testing;

constexpr Epoch kEpoch = 9;

// A worker whose pool runs when the test says so; all else is done in the test's thread.
struct World {
  std::unique_ptr<net::Transport> transport = net::NewInProcessTransport();
  PsEnv env;
  FakePs ps0{transport.get(), "ps:0"}, ps1{transport.get(), "ps:1"};
  WorkerService worker{&env, transport.get(), &ClusterOps(),
                       cluster::DaemonOptions{"worker", 4, "worker"}};
  std::unique_ptr<FakeCoordinator> coordinator;

  World() {
    REQUIRE(worker.Start().ok());
    coordinator = std::make_unique<FakeCoordinator>(transport.get(), "worker", kEpoch);
  }
  ~World() { env.step_pool.RunAll(); }

  void RunUntil(const std::function<bool()>& done) {
    const absl::Time deadline = absl::Now() + kWorkerPatience;
    while (!done() && absl::Now() < deadline) {
      if (env.step_pool.RunAll() == 0) std::this_thread::yield();
    }
    REQUIRE(done());
  }
  void Must(const proto::ControlRequest& request) {
    coordinator->Ask(request);
    RunUntil([this] { return !coordinator->no_reply(); });
    const absl::Status status = cluster::FromProto(coordinator->TakeReply().status());
    INFO(status);
    REQUIRE(status.ok());
  }
};

proto::ControlRequest SetUp() {
  proto::ControlRequest request;
  for (const char* address : {"ps:0", "ps:1"}) {
    request.mutable_setup_worker()->add_ps_addresses(address);
    request.mutable_setup_worker()->add_ps_incarnations(11);
  }
  return request;
}

proto::ControlRequest Data(const std::string& path) {
  proto::ControlRequest request;
  proto::DatasetSpec spec = CsvSpec(path);
  AddNumeric(&spec, "x");
  spec.set_example_ids(true);
  request.mutable_register_dataset()->set_dataset(1);
  *request.mutable_register_dataset()->mutable_spec() = spec;
  return request;
}

// Rows of both parameter servers by the example's id; those of ps:0 must be finite.
proto::ControlRequest Plan() {
  graph::GraphBuilder b("step", &ClusterOps());
  const Output ids = b.Argument("ids", DType::kI64, Shape{kUnknownDim});
  const Output x = b.Argument("x", DType::kF32, Shape{kUnknownDim});
  const Output rows0 = b.Op("GatherShard", {ids}, ReadOf(0, Shape{100, 1}));
  const Output rows1 = b.Op("GatherShard", {ids}, ReadOf(1, Shape{100, 1}));
  const Output checked = b.Op("CheckGradient", {rows0}, {{"variable", "t"}});
  const Output sum = b.Op("Add", {b.Op("ReduceSum", {checked}), b.Op("ReduceSum", {rows1})});
  b.Result("sum", b.Op("Add", {sum, b.Op("ReduceSum", {x})}));
  auto function = b.Finish();
  INFO(function.status());
  REQUIRE(function.ok());
  auto partition = function::PartitionFunction(*function, 2, PsOfSameNumber);
  REQUIRE(partition.ok());
  proto::ControlRequest request;
  proto::RegisterPlan* plan = request.mutable_register_plan();
  plan->set_plan(1);
  *plan->mutable_worker() = graph::ToProto(partition->worker);
  for (const char* column : {"example_id", "x"}) plan->add_sources()->set_column(column);
  return request;
}

function::ClosureRequest Closure(ClosureId id, int64_t examples) {
  function::ClosureRequest closure;
  closure.closure = id;
  closure.plan = 1;
  closure.attempt = 1;
  closure.dataset = 1;
  closure.ticket = {Part::kTraining, 0, 0, examples};
  return closure;
}

void AnswerRows(const FakePs::Frame& frame, float value) {
  const int64_t count = frame.request.tensors.at(0).dim(0);
  frame.Answer({Tensor::FromVector<float>(std::vector<float>(static_cast<size_t>(count), value),
                                          Shape{count, 1})
                    .value()});
}

TEST_CASE("the examples of a failed step are read on the pool, not where a reply comes in",
          "[worker]") {
  World w;
  const DataFiles files;
  w.Must(SetUp());
  w.Must(Data(files.Write("rows.csv", "x\n1\n5000000\n3\n")));
  w.Must(Plan());
  w.coordinator->Run(Closure(1, 3));
  w.RunUntil([&] { return !w.ps0.frames.empty() && !w.ps1.frames.empty(); });
  AnswerRows(w.ps0.frames.Take("a look-up"), std::numeric_limits<float>::quiet_NaN());
  w.env.step_pool.RunAll();  // it is found, and the other reply is still to come
  // The thread that brings the last one ends the step.
  AnswerRows(w.ps1.frames.Take("the other look-up"), 1);
  CHECK(w.coordinator->no_data());
  w.RunUntil([&] { return !w.coordinator->no_data(); });
  const absl::Status status = w.coordinator->TakeDone().status;
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(status.message()),
             Catch::Contains("the largest number of the batch is 5000000, in column 'x'") ||
                 Catch::Contains("the largest number of the batch is 5e+06, in column 'x'"));
}

std::string ManyRows() {
  std::string csv = "x\n";
  for (int i = 0; i < 5000; ++i) absl::StrAppend(&csv, i, "\n");
  return csv;
}

TEST_CASE("a worker without memory for a data set or a batch says so, and can be asked again",
          "[worker][memory]") {
  World w;
  const DataFiles files;
  const proto::ControlRequest data = Data(files.Write("rows.csv", ManyRows()));
  w.Must(SetUp());
  w.Must(Plan());
  constexpr int kMostPlaces = 1000;
  int refused = 0;
  for (int granted = 0; granted < kMostPlaces; ++granted) {
    w.coordinator->Ask(data);
    bool failed = false;
    {
      FailingMemory memory(granted);
      w.RunUntil([&] { return !w.coordinator->no_reply(); });
      failed = memory.failed();
    }
    const absl::Status status = cluster::FromProto(w.coordinator->TakeReply().status());
    INFO("after " << granted << " grants: " << status);
    if (status.ok()) break;
    CHECK(failed);
    CHECK(status.code() == absl::StatusCode::kResourceExhausted);
    ++refused;
  }
  CHECK(refused > 0);
  refused = 0;
  ClosureId id = 1;
  for (int granted = 0; granted < kMostPlaces && w.ps0.frames.empty(); ++granted) {
    w.coordinator->Run(Closure(id++, 4000));
    {
      FailingMemory memory(granted);
      w.env.step_pool.RunAll();
    }
    if (!w.ps0.frames.empty()) break;
    const absl::Status status = w.coordinator->TakeDone().status;
    INFO("after " << granted << " grants: " << status);
    CHECK(status.code() == absl::StatusCode::kResourceExhausted);
    ++refused;
  }
  CHECK(refused > 0);
  REQUIRE_FALSE(w.ps0.frames.empty());
  AnswerRows(w.ps0.frames.Take("a look-up"), 1);
  AnswerRows(w.ps1.frames.Take("the other look-up"), 1);
  w.RunUntil([&] { return !w.coordinator->no_data(); });
  CHECK(w.coordinator->TakeDone().status.ok());
}

}  // namespace
}  // namespace coxswain::worker
