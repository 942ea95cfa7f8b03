// The table that counts how often each example was used.
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/model/visits.h"
#include "coxswain/cluster.h"
#include "coxswain/cluster_coordinator.h"
#include "coxswain/strategy.h"
#include "runtime/data/dataset_options.h"
#include "tests/testing/data_files.h"

namespace coxswain::chaos {
namespace {

constexpr int64_t kExamples = 50;
constexpr int64_t kBatch = 8;

template <typename T>
T Take(absl::StatusOr<T> value) {
  INFO(value.status());
  REQUIRE(value.ok());
  return *std::move(value);
}

// Shuffled epochs of 50 examples, in batches of 8, of which only the visits are kept.
class VisitJob {
 public:
  VisitJob() : strategy_(Take(Cluster::InProcess(2, 2))) {
    std::string csv = "x\n";
    for (int64_t i = 0; i < kExamples; ++i) absl::StrAppend(&csv, i, "\n");
    data::DatasetOptions options =
        Csv(files_.Write("x.csv", csv)).Numeric("x").Shuffle(5).Batch(kBatch).Epochs(9).options();
    options.spec.set_example_ids(true);
    data_ = Take(strategy_.CreatePerWorkerDataset(options));
    const EmbeddingTable visits = Take(model::CreateVisits(&strategy_, data_));
    CHECK(visits.info().shards.size() == 2);
    CHECK(model::IsInternal(visits.info()));
    step_ = Take(strategy_.Define("step", data_, [&](FunctionBuilder& f) {
      model::CountVisits(f, visits);
      f.Result("mean", f.Mean(f.Column("x")));
    }));
    coordinator_.emplace(strategy_);
  }

  // The job's next batches; how many examples they had.
  int64_t Train(int batches) {
    int64_t examples = 0;
    for (int i = 0; i < batches; ++i) {
      last_ = *data_.NextTicket();
      examples += last_.size();
      coordinator_->Schedule(step_, last_);
    }
    Join();
    return examples;
  }
  void TrainAgain() {
    coordinator_->Schedule(step_, last_);
    Join();
  }
  model::Visitation Check(int64_t trained) {
    return Take(model::CheckVisits(&strategy_, data_, trained));
  }
  const Ticket& last() const { return last_; }

 private:
  void Join() {
    const absl::Status status = coordinator_->Join();
    INFO(status);
    REQUIRE(status.ok());
  }

  DataFiles files_;
  ParameterServerStrategy strategy_;
  PerWorkerDataset data_;
  RemoteFunction step_;
  std::optional<ClusterCoordinator> coordinator_;
  Ticket last_;
};

TEST_CASE("visits are right after whole epochs and in the middle of one", "[chaos][visits]") {
  VisitJob job;
  int64_t trained = 0;
  for (const int batches : {3, 4, 7, 9}) {  // an epoch has 7 batches
    trained += job.Train(batches);
    const model::Visitation visits = job.Check(trained);
    CHECK(visits.examples == kExamples);
    CHECK(visits.missing == 0);
    CHECK(visits.repeated == 0);
  }
}

TEST_CASE("examples that were used twice or not at all are counted", "[chaos][visits]") {
  VisitJob job;
  const int64_t trained = job.Train(9);
  job.TrainAgain();
  CHECK(job.Check(trained).repeated == job.last().size());
  CHECK(job.Check(trained).missing == 0);
  // A batch more was planned than was trained; one was trained twice.
  const model::Visitation visits = job.Check(trained + kBatch);
  CHECK(visits.repeated == job.last().size());
  CHECK(visits.missing == kBatch);
}

TEST_CASE("visits that were not counted cannot be checked", "[chaos][visits]") {
  const DataFiles files;
  ParameterServerStrategy strategy(Take(Cluster::InProcess(1, 1)));
  const auto data = Take(
      strategy.CreatePerWorkerDataset(Csv(files.Write("x.csv", "x\n1\n")).Numeric("x").Batch(1)));
  CHECK(model::CheckVisits(&strategy, data, 1).status().code() == absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace coxswain::chaos
