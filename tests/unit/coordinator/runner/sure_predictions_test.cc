// A model that is so sure that its probabilities are 1 in f32.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/runner/runner.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"

namespace coxswain::runner {
namespace {

using testing::Must;

TEST_CASE("evaluations order examples by their scores, however sure the model is", "[job]") {
  const DataFiles files;
  std::string rows = "x,y,z\n";
  std::vector<int> labels;
  for (int i = 0; i < 60; ++i) {
    labels.push_back(i > 10 && i % 4 != 0 ? 1 : 0);
    absl::StrAppend(&rows, i, ",", labels.back(), ",", labels.back(), "\n");
  }
  double right = 0, all = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    for (size_t j = 0; j < labels.size(); ++j) {
      if (labels[i] == 0 || labels[j] == 1) continue;
      all += 1;
      right += i > j ? 1 : 0;
    }
  }
  const std::string data = files.Write("data.csv", rows), same = files.Write("same.csv", rows);
  const auto trained = [&](const std::string& text) {
    const job::JobSpec job = Must(job::ParseJob(
        absl::StrCat("dataset: {path: ", data, "}\nfeatures: [{name: x, kind: numeric}]\n",
                     "split: {test_path: ", same, "}\ntrain: {batch_size: 60, epochs: 3}\n",
                     "optimizer: {dense: {kind: sgd, learning_rate: 1000}}\n", text),
        "job.yaml"));
    const Cluster cluster = testing::MustStart(1, 1);
    JobRunner runner(cluster, job, {});
    Must(runner.Prepare());
    return Must(runner.Train()).metrics;
  };
  CHECK(trained("label: {column: y}\nmodel: {kind: logistic_regression}\n"
                "evaluate: {metrics: [auc]}\n")
            .at("auc") == Approx(right / all));
}

}  // namespace
}  // namespace coxswain::runner
