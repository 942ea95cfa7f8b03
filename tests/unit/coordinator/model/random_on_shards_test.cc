// What training draws at random (what is dropped, negatives, words) is the same however the tables
// are cut: a job does the same on two parameter servers as on three.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/model/model.h"
#include "runtime/data/dataset_options.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"

namespace coxswain::model {
namespace {

using testing::Must;
using testing::MustStart;

constexpr char kRows[] =
    "shop,film,time,age,bought\na,x,1,1,1\nb,y,2,-2,0\na,z,3,0.5,1\n"
    "a,w,4,0,0\nb,x,5,2,1\nc,y,6,-1,0\nb,w,7,0.25,1\nc,z,8,1,0\n";
constexpr char kFeatures[] = R"(
features:
  - {name: shop, kind: categorical}
  - {name: film, kind: categorical}
  - {name: age, kind: numeric}
)";
constexpr char kHistory[] = R"(
features:
  - {name: film, kind: categorical}
  - {name: had, kind: history, history_of: film, group_by: shop, by: time, max_values: 3}
)";

// Of some steps, each on all examples, one after the other.
std::vector<float> Losses(const std::string& job_text, int shards) {
  const job::JobSpec job = Must(job::ParseJob(
      job_text, "job.yaml",
      {absl::StrCat("parameter_servers.partitioner={kind: fixed_shards, shards: ", shards, "}")}));
  ParameterServerStrategy strategy(MustStart(1, 1, 1));
  data::DatasetOptions options;
  options.spec = job.dataset;
  options.batch_size = 100;
  options.epochs = 6;
  PerWorkerDataset dataset = Must(strategy.CreatePerWorkerDataset(options));
  const auto built = Must(Model::Create(&strategy, job, dataset));
  ClusterCoordinator coordinator(strategy);
  const RemoteFunction step = Must(built->DefineTrain());
  std::vector<float> losses;
  while (const auto ticket = dataset.NextTicket()) {
    const RemoteValue value = coordinator.Schedule(step, *ticket);
    losses.push_back(Must(coordinator.Fetch<float>(value, "loss")));
  }
  return losses;
}

TEST_CASE("what training draws at random does not depend on the number of shards", "[model]") {
  const DataFiles files;
  const std::string rows = absl::StrCat("dataset: {path: ", files.Write("a.csv", kRows), "}");
  const std::string text = absl::StrCat(
      "dataset: {format: text, min_count: 1, subsample: 0, path: ",
      files.Write("a.txt", "one two three four\ntwo three five six one\nfour five one two\n"), "}");
  const std::string tower = absl::StrCat(
      rows, kFeatures,
      "model: {kind: two_tower, user: {features: [shop], hidden: [4]}, item: {feature: film}, "
      "dim: 4, dropout: 0.3}\n");
  const std::string jobs[] = {
      absl::StrCat(rows, kFeatures, "label: {column: bought}\n",
                   "model: {kind: mlp, hidden: [8, 4], dropout: 0.3}"),
      absl::StrCat(rows, kFeatures, "label: {column: bought}\n",
                   "model: {kind: wide_deep, deep: {hidden: [8]}, dropout: 0.3}"),
      absl::StrCat(rows, kHistory, "model: {kind: sasrec, history: had, dim: 4, dropout: 0.3}\n",
                   "loss: {kind: bpr, negatives: 4}"),
      absl::StrCat(tower, "loss: {kind: sampled_softmax, negatives: 4}"),
      absl::StrCat(tower, "loss: {kind: bpr, negatives: 4, distribution: popularity}"),
      absl::StrCat(text, "\nmodel: {kind: word2vec, dim: 4}"),
      absl::StrCat(text, "\nmodel: {kind: word2vec, dim: 4}\n",
                   "loss: {kind: sampled_softmax, negatives: 4}"),
  };
  for (const std::string& job : jobs) {
    CAPTURE(job);
    const std::vector<float> one = Losses(job, 1);
    REQUIRE(one.size() == 6);
    CHECK(Losses(job, 2) == one);
    CHECK(Losses(job, 3) == one);
  }
}

}  // namespace
}  // namespace coxswain::model
