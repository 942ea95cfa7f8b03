// What a program holds and does while workers are preempted: data sets, values, errors, a queue.
#include <signal.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <future>
#include <optional>

#include "runtime/base/status.h"
#include "runtime/data/dataset_options.h"
#include "tests/integration/fault_cluster.h"
#include "tests/testing/slow_file.h"

namespace coxswain {
namespace {

using Kind = ClusterEvent::Kind;

constexpr int64_t kExamples = 500;

std::string Numbers() {
  std::string csv = "x\n";
  for (int64_t i = 0; i < kExamples; ++i) absl::StrAppend(&csv, i, "\n");
  return csv;
}

// Adds 1 to each example's row for every step that uses it.
struct VisitJob {
  explicit VisitJob(ParameterServerStrategy* s, const PerWorkerDataset& dataset) : strategy(s) {
    auto created = strategy->CreateTable(
        "visits", {.rows = kExamples, .dim = 1, .optimizer = Sgd{.learning_rate = 1}});
    MustBeOk(created.status());
    visits = *created;
    auto defined = strategy->Define("visit", dataset, [&](FunctionBuilder& f) {
      f.Minimize(f.Neg(f.Sum(f.Lookup(visits, f.Column("example_id")))));
      f.Result("sum", f.Sum(f.Column("x")));
    });
    MustBeOk(defined.status());
    step = *defined;
  }
  void CheckEachVisited(float times) const {
    const auto rows = strategy->Read(visits);
    MustBeOk(rows.status());
    int64_t wrong = 0;
    for (int64_t r = 0; r < kExamples; ++r) wrong += rows->data<float>()[r] != times;
    CHECK(wrong == 0);
  }

  ParameterServerStrategy* strategy;
  EmbeddingTable visits;
  RemoteFunction step;
};

// The worker's own copy of the file cannot be opened, so that it is surely busy with the data set
// when it is killed.
TEST_CASE("a worker that is preempted while it loads a data set loads it again", "[fault]") {
  const DataFiles folders;
  for (const char* folder : {"here", "there"}) {
    REQUIRE(std::filesystem::create_directory(folders.Path(folder)));
  }
  folders.Write("here/data.csv", Numbers());
  SlowFile slow(folders.Path("there/data.csv"));
  FaultCluster f(2, 2, {}, [&](const std::string& job, int task) {
    const bool slowly = job == "worker" && task == 0;
    return Daemons::Launch{{"/usr/bin/env", "-C", folders.Path(slowly ? "there" : "here")}, {}};
  });
  CountingJob job(f.cluster);

  DatasetBuilder builder = Csv("/proc/self/cwd/data.csv").Numeric("x").Shuffle(3).Batch(10);
  data::DatasetOptions options = builder.Epochs(4).options();
  options.spec.set_example_ids(true);
  const std::filesystem::path home = std::filesystem::current_path();
  std::filesystem::current_path(folders.Path("here"));
  auto created = std::async(std::launch::async,
                            [&] { return job.strategy().CreatePerWorkerDataset(options); });
  REQUIRE(slow.AwaitReader());
  f.LoseWorker(0);
  auto dataset = created.get();
  std::filesystem::current_path(home);
  MustBeOk(dataset.status());

  VisitJob visit(&job.strategy(), *dataset);
  ClusterCoordinator coordinator(job.strategy());
  while (auto ticket = dataset->NextTicket()) {
    coordinator.Schedule(visit.step, *ticket);
    if (ticket->epoch == 1 && ticket->begin == 0) {
      slow.Write(Numbers());
      f.ReturnWorker(0);
    }
  }
  MustBeOk(coordinator.Join());
  visit.CheckEachVisited(4);
  CHECK(f.ClosuresRun(0) > 0);
}

TEST_CASE("a data set that is made while all workers are away is loaded by those that come back",
          "[fault]") {
  const DataFiles files;
  FaultCluster f(1, 1);
  CountingJob job(f.cluster);
  f.LoseWorker(0);
  DatasetBuilder builder = Csv(files.Write("data.csv", Numbers())).Numeric("x").Batch(10);
  data::DatasetOptions options = builder.Epochs(1).options();
  options.spec.set_example_ids(true);
  auto dataset = job.strategy().CreatePerWorkerDataset(options);
  MustBeOk(dataset.status());
  f.ReturnWorker(0);
  VisitJob visit(&job.strategy(), *dataset);
  ClusterCoordinator coordinator(job.strategy());
  while (auto ticket = dataset->NextTicket()) coordinator.Schedule(visit.step, *ticket);
  MustBeOk(coordinator.Join());
  visit.CheckEachVisited(1);
}

TEST_CASE("values that were computed outlive the workers that computed them", "[fault]") {
  FaultCluster f(1, 2);
  CountingJob job(f.cluster);
  std::vector<RemoteValue> values;
  for (int i = 0; i < 20; ++i) {
    job.Schedule(1);
    values.push_back(job.last());
  }
  MustBeOk(job.Join());
  f.LoseWorker(0);
  f.LoseWorker(1);
  f.LosePs(0);
  float least = 0;
  for (const RemoteValue& value : values) {
    const auto loss = job.coordinator().Fetch<float>(value, "loss");
    MustBeOk(loss.status());
    least = std::min(least, *loss);
  }
  // The last of the steps has seen most of the others.
  CHECK(least < 0);
  CHECK(least >= -19 * CountingJob::kRows);
}

TEST_CASE(
    "a closure takes what workers computed that are gone, and one that finds none has a deadline",
    "[fault]") {
  FaultCluster f(1, 2);
  CountingJob::Options collect;
  collect.coordinator.on_error = ErrorPolicy::kCollect;
  CountingJob job(f.cluster, collect);
  const auto add = job.strategy().Define("add", [](FunctionBuilder& b) {
    const Output x = b.Argument("x", DType::kF32, Shape{});
    const Output y = b.Argument("y", DType::kF32, Shape{});
    b.Result("sum", b.Add(x, y));
  });
  MustBeOk(add.status());
  ClusterCoordinator& coordinator = job.coordinator();
  const Tensor one = Tensor::Scalar<float>(1);
  const RemoteValue two = coordinator.Schedule(*add, {one, one});
  MustBeOk(two.Get().status());
  f.LoseWorker(0);
  f.LoseWorker(1);
  const RemoteValue three = coordinator.Schedule(*add, {.arguments = {two, one}});
  const RemoteValue four = coordinator.Schedule(*add, {.arguments = {three, one}});
  const absl::Status late =
      coordinator.Schedule(*add, {.arguments = {two, two}, .deadline = absl::Milliseconds(50)})
          .Get()
          .status();
  CHECK(late.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(GetEffect(late) == Effect::kNothing);
  CHECK_FALSE(four.Ready());
  f.ReturnWorker(1);
  CHECK(coordinator.Join() == late);
  const auto sum = coordinator.Fetch<float>(four, "sum");
  MustBeOk(sum.status());
  CHECK(*sum == 4);
}

// Nothing for OK and for a status without a cause.
std::optional<ErrorCause> CauseOf(const absl::Status& status) {
  const auto detail = GetDetail(status);
  if (!detail) return std::nullopt;
  return detail->cause;
}

struct FailingJob {
  FailingJob(const FaultCluster& f, ErrorPolicy policy) : job(f.cluster, With(policy)) {
    auto defined = job.strategy().Define("fail", [](FunctionBuilder& b) {
      const Output index = b.Argument("index", DType::kI64, Shape{1});
      b.Result("picked", b.Gather(b.Constant(Tensor::FromVector<float>({1, 2, 3})), index));
    });
    MustBeOk(defined.status());
    fail = *defined;
  }
  static CountingJob::Options With(ErrorPolicy policy) {
    CountingJob::Options options;
    options.coordinator.on_error = policy;
    return options;
  }
  RemoteValue ScheduleError() {
    return job.coordinator().Schedule(fail, {Tensor::FromVector<int64_t>({7})});
  }

  CountingJob job;
  RemoteFunction fail;
};

TEST_CASE("closures with errors stay errors, and only they, while workers are preempted",
          "[fault]") {
  FaultCluster f(2, 2);
  FailingJob failing(f, ErrorPolicy::kCollect);
  CountingJob& job = failing.job;
  std::vector<RemoteValue> bad;
  for (int i = 0; i < 20; ++i) {
    job.Schedule(50);
    bad.push_back(failing.ScheduleError());
  }
  REQUIRE(job.AwaitCompleted(200));
  f.LoseWorker(1);
  f.ReturnWorker(1);
  const absl::Status joined = job.Join();
  INFO(joined);
  CHECK(CauseOf(joined) == ErrorCause::kApplication);
  CHECK(job.coordinator().errors().size() == bad.size());
  for (const RemoteValue& value : bad) {
    const absl::Status status = value.Get().status();
    CHECK_FALSE(status.ok());
    CHECK(CauseOf(status) == ErrorCause::kApplication);
  }
  job.CheckAppliedOnce();
  job.Schedule(100);
  MustBeOk(job.Join());
  job.CheckAppliedOnce();
}

TEST_CASE("an error ends the program's closures while a worker is preempted, and it can go on",
          "[fault]") {
  FaultCluster f(2, 2);
  FailingJob failing(f, ErrorPolicy::kFailFast);
  CountingJob& job = failing.job;
  job.Schedule(200);
  failing.ScheduleError();
  job.Schedule(2000);
  f.KillWorker(0);
  const absl::Status joined = job.Join();
  INFO(joined);
  REQUIRE_FALSE(joined.ok());
  // The closure's own fault is told, not the worker's loss.
  CHECK(CauseOf(joined) == ErrorCause::kApplication);
  CHECK_THAT(std::string(joined.message()), Catch::Matchers::Contains("7"));
  f.Expect(Kind::kWorkerLost, f.Worker(0), 1);
  f.ReturnWorker(0);
  const std::map<uint32_t, uint64_t> before = job.Applied();
  job.Schedule(300);
  MustBeOk(job.Join());
  for (const auto& [shard, applied] : job.Applied()) CHECK(applied == before.at(shard) + 300);
}

TEST_CASE("a queue of two closures is enough for any number of preemptions", "[fault]") {
  FaultCluster f(2, 2);
  CountingJob::Options tiny;
  tiny.coordinator.queue_size = 2;
  CountingJob job(f.cluster, tiny);
  {
    Feeder feeder(&job);
    for (int round = 0; round < 3; ++round) {
      REQUIRE(job.AwaitCompleted(job.completed() + 100));
      f.LoseWorker(round % 2);
      const DispatcherStats stats = job.coordinator().stats();
      CHECK(stats.scheduled <= stats.completed + 2);
      f.ReturnWorker(round % 2);
    }
  }
  MustBeOk(job.Join());
  job.CheckAppliedOnce();
}

}  // namespace
}  // namespace coxswain
