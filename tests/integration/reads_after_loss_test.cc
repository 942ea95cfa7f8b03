// Values have the updates of all closures that are over, also while these run again because a
// parameter server was lost.
#include <catch2/catch.hpp>
#include <filesystem>
#include <future>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/api/read_as_one.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/model/model.h"
#include "coordinator/model/saved_model.h"
#include "coordinator/model/saved_reader.h"
#include "runtime/data/dataset_options.h"
#include "tests/integration/fault_cluster.h"
#include "tests/testing/cluster.h"
#include "tests/testing/logged.h"

namespace coxswain {
namespace {

using Kind = ClusterEvent::Kind;
using testing::Must;

constexpr int64_t kSteps = 2000;

// And waits until its shards are back: closures run again from now on.
void LoseAndReturnPs(FaultCluster* c, int ps) {
  const int before = c->events.Count(Kind::kRecovered, "");
  c->LosePs(ps);
  c->daemons.RestartPs(ps);
  c->Expect(Kind::kRecovered, "", before + 1);
}

TEST_CASE("a value that is read while closures run again has the updates of all that were over",
          "[loss]") {
  FaultCluster c(1, 1);
  CountingJob job(c.cluster);
  job.Schedule(kSteps);
  MustBeOk(job.Join());
  LoseAndReturnPs(&c, 0);
  CHECK(job.ReadCounter() == kSteps);
  // Also what is asked for before anybody knows that they have to run again.
  c.LosePs(0);
  auto read = std::async(std::launch::async, [&] { return job.ReadCounter(); });
  c.daemons.RestartPs(0);
  CHECK(read.get() == kSteps);
  job.CheckAppliedOnce();
}

TEST_CASE("Join returns when everything has run again", "[loss]") {
  FaultCluster c(1, 1);
  CountingJob job(c.cluster);
  job.Schedule(kSteps);
  MustBeOk(job.Join());
  c.LosePs(0);
  // A program that reads nothing need not wait.
  MustBeOk(job.coordinator().JoinScheduled());
  CHECK(c.cluster.Stats().failures.closures_rerun == 0);
  auto joined = std::async(std::launch::async, [&] { return job.Join(); });
  c.daemons.RestartPs(0);
  MustBeOk(joined.get());
  CHECK(c.cluster.Stats().failures.closures_rerun == kSteps);
  for (const auto& [shard, steps] : job.Applied()) CHECK(steps == kSteps);
}

TEST_CASE("Join and reads end with an error when a lost parameter server stays away", "[loss]") {
  ClusterOptions options;
  options.recovery.ps_return_timeout = absl::Milliseconds(300);
  options.recovery.cluster_timeout = absl::Seconds(2);
  FaultCluster c(1, 1, options);
  CountingJob job(c.cluster);
  job.Schedule(10);
  MustBeOk(job.Join());
  const Variable counter = Must(job.strategy().CreateVariable("other", {}));
  c.LosePs(0);
  auto read = std::async(std::launch::async, [&] { return job.strategy().Read(counter).status(); });
  const absl::Status joined = job.Join();
  CHECK(absl::StrContains(joined.message(), FaultCluster::Ps(0)));
  CHECK(read.get() == joined);
}

TEST_CASE("where losses are accepted, Join and reads wait for nothing to run again", "[loss]") {
  ClusterOptions options;
  options.recovery.on_ps_loss = PsLossPolicy::kAcceptLoss;
  FaultCluster c(1, 1, options);
  CountingJob job(c.cluster);
  job.Schedule(100);
  MustBeOk(job.Join());
  c.LosePs(0);
  MustBeOk(job.Join());
  c.daemons.RestartPs(0);
  CHECK(job.ReadCounter() == 0);
  MustBeOk(job.Join());
}

TEST_CASE("what takes several requests is read again when a parameter server is lost in between",
          "[loss]") {
  FaultCluster c(1, 1);
  CountingJob job(c.cluster);
  job.Schedule(50);
  MustBeOk(job.Join());
  int reads = 0;
  const auto read = [&](int lost_in) {
    return ReadAsOne(c.cluster, "it", [&, lost_in] {
      if (++reads == lost_in) LoseAndReturnPs(&c, 0);
      return reads <= lost_in ? absl::AbortedError("half of the one, half of the other")
                              : absl::OkStatus();
    });
  };
  MustBeOk(read(1));
  CHECK(reads == 2);
  // An error without a loss is its own.
  reads = 0;
  CHECK(absl::IsAborted(read(10)));
  CHECK(reads == 1);
  // Not for ever.
  reads = 0;
  const absl::Status never = ReadAsOne(c.cluster, "it", [&] {
    ++reads;
    LoseAndReturnPs(&c, 0);
    return absl::OkStatus();
  });
  CHECK(reads == kMostReads);
  CHECK(absl::IsUnavailable(never));
  CHECK(absl::StrContains(never.message(), "it: shards went back"));
}

TEST_CASE("the ids of a hash table come once each, or the cursor is refused, when a PS is lost",
          "[loss]") {
  FaultCluster c(1, 1);
  ParameterServerStrategy strategy(c.cluster);
  const EmbeddingTable table = Must(strategy.CreateTable(
      "table", {.dim = 2, .optimizer = Sgd{.learning_rate = 1}, .hash = HashTableOptions{}}));
  const RemoteFunction step = Must(strategy.Define("step", [&](FunctionBuilder& f) {
    f.Minimize(f.Sum(f.Lookup(table, f.Argument("ids", DType::kI64, Shape{kUnknownDim}))));
  }));
  ClusterCoordinator coordinator(strategy);
  for (int64_t i = 0; i < 50; ++i) {
    coordinator.Schedule(step, {Tensor::FromVector<int64_t>({2 * i, 2 * i + 1})});
  }
  MustBeOk(coordinator.Join());
  ParameterServerStrategy::TableCursor at;
  MustBeOk(strategy.ReadIds(table, 10, &at).status());
  REQUIRE_FALSE(at.done());
  LoseAndReturnPs(&c, 0);
  const absl::Status refused = strategy.ReadIds(table, 10, &at).status();
  CHECK(absl::IsAborted(refused));
  CHECK(absl::StrContains(refused.message(), "variable 'table': shards went back"));
  std::multiset<int64_t> ids;
  for (ParameterServerStrategy::TableCursor next; !next.done();) {
    const auto read = Must(strategy.ReadIds(table, 10, &next));
    ids.insert(read.ids.values<int64_t>().begin(), read.ids.values<int64_t>().end());
  }
  CHECK(ids.size() == 100);
  CHECK(std::set<int64_t>(ids.begin(), ids.end()).size() == 100);
}

// A job whose model is saved while one of its parameter servers stands still and is lost.
struct SavedMeanwhile {
  explicit SavedMeanwhile(FaultCluster* c)
      : text(absl::StrCat("name: ratings\ndataset: {path: ", c->files.Write("r.csv", Ratings()),
                          "}\nfeatures:\n  - {name: u, kind: categorical}\n",
                          "  - {name: m, kind: categorical}\nlabel: {column: y}\n",
                          "model: {kind: matrix_factorization, user: {feature: u}, ",
                          "item: {feature: m}, dim: 4}\nloss: {kind: mse}\n",
                          "optimizer: {table: {kind: sgd, learning_rate: 0.1}}\n",
                          "train: {epochs: 1, batch_size: 20, deterministic: true}\n")),
        job(Must(job::ParseJob(text, "job.yaml"))),
        strategy(c->cluster, {.partitioner = FixedShards(2)}) {
    data::DatasetOptions options;
    options.spec = job.dataset;
    options.batch_size = 20;
    PerWorkerDataset dataset = Must(strategy.CreatePerWorkerDataset(options));
    const auto model = Must(model::Model::Create(&strategy, job, dataset));
    const RemoteFunction step = Must(model->DefineTrain());
    ClusterCoordinator coordinator(strategy);
    while (const auto ticket = dataset.NextTicket()) coordinator.Schedule(step, *ticket);
    MustBeOk(coordinator.Join());
    c->daemons.ps(1).Kill(SIGSTOP);
    auto saved = std::async(std::launch::async, [&] {
      model::SavedModelInfo info;
      info.job_text = text;
      return model::SaveModel(&strategy, dataset.data(), job, info, c->files.Path("model"));
    });
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (!Begun(c->files) && absl::Now() < deadline) continue;
    CHECK(Begun(c->files));
    LoseAndReturnPs(c, 1);
    status = saved.get();
  }

  static std::string Ratings() {
    std::string csv = "u,m,y\n";
    for (int i = 0; i < 400; ++i) absl::StrAppend(&csv, "u", i % 40, ",m", i % 7, ",", i % 5, "\n");
    return csv;
  }
  // A file of values is there, beside the model's place.
  static bool Begun(const DataFiles& files) {
    std::error_code error;
    for (std::filesystem::recursive_directory_iterator it(files.Path(""), error), end;
         !error && it != end; it.increment(error)) {
      if (it->path().extension() == ".safetensors") return true;
    }
    return false;
  }

  const std::string text;
  const job::JobSpec job;
  ParameterServerStrategy strategy;
  absl::Status status;
};

TEST_CASE("a model is saved anew when a parameter server is lost meanwhile", "[loss]") {
  ClusterOptions options;
  options.lease = absl::Seconds(60);  // a server that stands still is not lost
  FaultCluster c(2, 1, options);
  std::optional<SavedMeanwhile> saved;
  const DataFiles logs;
  const std::string logged = testing::Logged(logs, [&] { saved.emplace(&c); });
  MustBeOk(saved->status);
  CHECK(absl::StrContains(logged, "the model is read again"));
  const auto source = Must(model::SavedSource::OpenModel(c.files.Path("model")));
  for (const auto& info : saved->strategy.variables()) {
    CAPTURE(info->name);
    const Tensor now = Must(info->table ? saved->strategy.Read(EmbeddingTable(info))
                                        : saved->strategy.Read(Variable(info)));
    const model::SavedRows rows = Must(source.Open(info->name));
    Tensor found(now.dtype(), now.shape());
    MustBeOk(rows.Read(0, rows.rows(), found.mutable_raw()));
    CHECK(testing::Same(found, now));
  }
}

}  // namespace
}  // namespace coxswain
