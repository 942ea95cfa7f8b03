// A vector is to a model what its numbers are one by one.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/model/model.h"
#include "runtime/data/dataset.h"
#include "runtime/data/dataset_options.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"

namespace coxswain::model {
namespace {

using testing::Must;
using testing::MustStart;

// The losses of some steps.
std::vector<float> Losses(const std::string& path, const std::string& numbers,
                          const std::string& model) {
  const job::JobSpec job = Must(job::ParseJob(
      absl::StrCat("dataset: {path: ", path, "}\nfeatures:\n  - {name: shop, kind: categorical}\n",
                   numbers, "label: {column: bought}\nmodel: ", model,
                   "\noptimizer: {table: {kind: sgd, learning_rate: 0.5}, ",
                   "dense: {kind: sgd, learning_rate: 0.1}}\ntrain: {shuffle: false}\n"),
      "job.yaml"));
  ParameterServerStrategy strategy(MustStart(1, 1, 1));
  data::DatasetOptions options;
  options.spec = job.dataset;
  options.batch_size = 5;
  options.epochs = 20;
  PerWorkerDataset dataset = Must(strategy.CreatePerWorkerDataset(options));
  const auto built = Must(Model::Create(&strategy, job, dataset));
  ClusterCoordinator coordinator(strategy);
  const RemoteFunction step = Must(built->DefineTrain());
  std::vector<float> losses;
  while (const auto ticket = dataset.NextTicket()) {
    losses.push_back(Must(coordinator.Fetch<float>(coordinator.Schedule(step, *ticket), "loss")));
  }
  return losses;
}

TEST_CASE("a vector trains as its numbers do one by one, in every model that takes them") {
  DataFiles files;
  const std::string path = files.Write(
      "shop.csv", "shop,x1,x2,bought\na,1,0.5,1\nb,-2,0.25,0\nc,0.5,3,1\na,0,-1,0\nb,2,1,1\n");
  for (const char* model :
       {"{kind: mlp, hidden: [4]}", "{kind: logistic_regression}",
        "{kind: wide_deep, deep: {hidden: [4]}}", "{kind: dlrm, dim: 4, bottom: [4], top: [4]}"}) {
    INFO(model);
    const auto wanted =
        Losses(path, "  - {name: x1, kind: numeric}\n  - {name: x2, kind: numeric}\n", model);
    const auto found = Losses(path, "  - {name: x, kind: vector, columns: [\"x{1..2}\"]}\n", model);
    REQUIRE(found.size() == 20);
    for (size_t i = 0; i < found.size(); ++i) {
      CHECK(found[i] == Approx(wanted[i]).epsilon(1e-5));
    }
    CHECK(found.back() < found.front());
  }
}

}  // namespace
}  // namespace coxswain::model
