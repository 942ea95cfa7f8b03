// Files that come while a job trains on others: their data set is made before it is wanted.
#include "coordinator/runner/arrivals.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/model/model.h"
#include "coordinator/runner/data_checks.h"
#include "runtime/base/status.h"
#include "runtime/data/dataset_options.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"

namespace coxswain::runner {
namespace {

using testing::Must;

constexpr char kJob[] = R"(
dataset: {path: clicks, follow: true, cache_directory: cache}
features: [{name: n, kind: categorical, id: raw}]
label: {column: y}
model: {kind: logistic_regression}
train: {batch_size: 8}
)";

struct Followed {
  explicit Followed(const std::vector<std::string>& set = {}) {
    std::filesystem::create_directory(files.Path("clicks"));
    job = Must(job::ParseKeptJob(kJob, files.Path("job.yaml"), files.Path(""), set));
    strategy.emplace(testing::MustStart(1, 1));
    data::DatasetOptions options;
    options.spec = SpecBeforeFiles(job.dataset);
    options.batch_size = job.train.batch_size;
    before = Must(strategy->CreatePerWorkerDataset(options));
    model = Must(model::Model::Create(&*strategy, job, before));
    arrivals.emplace(&*strategy, job);
    Must(arrivals->Check());
  }
  absl::StatusOr<bool> Await() {
    return arrivals->Await([this](FollowedEpoch epoch) { come.push_back(std::move(epoch)); },
                           [] { return false; });
  }

  DataFiles files;
  job::JobSpec job;
  std::optional<ParameterServerStrategy> strategy;
  PerWorkerDataset before;
  std::unique_ptr<model::Model> model;
  std::optional<Arrivals> arrivals;
  std::vector<FollowedEpoch> come;
};

TEST_CASE("arrivals: what comes while an epoch is trained is ready when it is over") {
  Followed f;
  f.files.Write("clicks/a.csv", "n,y\n1,0\n2,1\n3,1\n");
  f.arrivals->Prepare(f.model.get());
  CHECK_FALSE(f.arrivals->Has(0));  // nothing of it can be scheduled before it is awaited
  CHECK(f.come.empty());
  f.files.Write("clicks/b.csv", "n,y\n4,0\n");
  REQUIRE(Must(f.Await()));
  REQUIRE(f.come.size() == 1);
  CHECK(f.arrivals->Has(0));
  CHECK(f.come[0].examples == 3);
  CHECK(f.come[0].files.size() == 1);  // that which came later is another epoch
  CHECK(Must(f.arrivals->TrainFunction(f.model.get(), 0)) != nullptr);
  REQUIRE(Must(f.Await()));
  REQUIRE(f.come.size() == 2);
  CHECK(f.come[1].examples == 1);
  CHECK(f.arrivals->Has(1));
}

TEST_CASE("arrivals: with nothing new nothing is ready") {
  Followed f;
  f.arrivals->Prepare(f.model.get());
  f.files.Write("clicks/a.csv", "n,y\n1,0\n");
  f.files.Write("clicks/_DONE", "");
  REQUIRE(Must(f.Await()));
  CHECK(f.come.size() == 1);
  f.arrivals->Prepare(f.model.get());
  CHECK_FALSE(Must(f.Await()));
}

TEST_CASE("arrivals: a file that cannot be read is told when its epoch is to begin") {
  Followed f;
  f.files.Write("clicks/a.csv", "n,y\n1,0\nnot a number,1\n");
  f.arrivals->Prepare(f.model.get());
  CHECK(f.come.empty());
  const absl::Status status = f.Await().status();
  CHECK_FALSE(status.ok());
  CHECK_THAT(std::string(status.message()), Catch::Matchers::Contains("a.csv:3"));
  CHECK(f.come.empty());
  CHECK_FALSE(f.arrivals->Has(0));
}

TEST_CASE("arrivals: an error of a side table does not blame the files that have come") {
  for (const char* policy : {"fail_fast", "ignore"}) {
    CAPTURE(policy);
    const DataFiles sides;
    const std::string side = sides.Write("side.csv", "n,w\n1,0.5\n");
    Followed f({absl::StrCat("train.on_error=", policy),
                absl::StrCat("dataset.join=[{path: ", side, ", on: n}]"),
                "features=[{name: w, kind: numeric}]"});
    f.files.Write("clicks/a.csv", "n,y\n1,0\n");
    const auto fails = [&](ErrorCause cause) {
      sides.Write("side.csv", "m,w\n1,0.5\n");
      f.files.Write(absl::StrCat("clicks/b", f.come.size(), ".csv"), "n,y\n1,0\n");
      int looks = 0;
      const absl::Status status =
          f.arrivals->Await([](const FollowedEpoch&) {}, [&] { return ++looks > 50; }).status();
      CAPTURE(status.ToString());
      REQUIRE(GetDetail(status));
      CHECK(GetDetail(status)->cause == cause);
      CHECK_THAT(std::string(status.message()), Catch::Matchers::Contains("side.csv") &&
                                                    !Catch::Matchers::Contains("write it as"));
    };
    fails(ErrorCause::kConfiguration);  // before anything was trained
    sides.Write("side.csv", "n,w\n1,0.5\n");
    f.files.Write("clicks/c.csv", "n,y\n1,0\n");
    REQUIRE(Must(f.Await()));
    fails(ErrorCause::kApplication);
  }
}

TEST_CASE("arrivals: whether nothing came for too long is not known of a directory that is away") {
  Followed f({"dataset.follow_idle=0.01"});
  CHECK_FALSE(Must(f.Await()));
  std::filesystem::remove_all(f.files.Path("clicks"));
  const absl::Status status = f.Await().status();
  CHECK(status.code() == absl::StatusCode::kUnavailable);
  CHECK_THAT(std::string(status.message()), Catch::Matchers::Contains("follow_idle"));
}

TEST_CASE("arrivals: an epoch whose table gives other ids than the job began with is refused") {
  DataFiles files;
  files.Write("items.csv", "n,price\n7,1\n8,2\n");
  constexpr char kJoined[] = R"(
dataset: {path: clicks, follow: true, cache_directory: cache, join: [{path: items.csv, on: n}]}
features:
  - {name: n, kind: categorical, vocabulary_file: items.csv}
  - {name: price, kind: numeric}
label: {column: y}
model: {kind: logistic_regression}
)";
  const job::JobSpec job =
      Must(job::ParseKeptJob(kJoined, files.Path("job.yaml"), files.Path(""), {}));
  const proto::DatasetSpec spec = SpecBeforeFiles(job.dataset);
  const auto before = MustLoad(spec);
  files.Write("items.csv", "n,price\n7,5\n8,6\n");
  CHECK(CheckSameVocabularies(job, *before, *MustLoad(spec)).ok());
  files.Write("items.csv", "n,price\n7,5\n9,6\n8,6\n");
  const absl::Status other = CheckSameVocabularies(job, *before, *MustLoad(spec));
  CHECK(absl::IsFailedPrecondition(other));
  CHECK_THAT(std::string(other.message()),
             Catch::Matchers::Contains("job.yaml:4:") &&
                 Catch::Matchers::Contains("items.csv has other keys than when the job began") &&
                 Catch::Matchers::Contains("wanted the same 2 in the same order, found 3"));
}

}  // namespace
}  // namespace coxswain::runner
