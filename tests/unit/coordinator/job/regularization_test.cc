// `regularization`: which dense variable has which L2 penalty, and what is refused.
#include "coordinator/job/regularization.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/model/model.h"
#include "kernels/optimizers/optimizer_spec.h"
#include "runtime/data/dataset_options.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"

namespace coxswain::job {
namespace {

using Catch::Matchers::Contains;
using testing::Must;

absl::StatusOr<JobSpec> Parse(const std::string& regularization,
                              const std::string& dense = "{kind: adam, l2: 0.5}",
                              const std::string& path = "a.csv") {
  return ParseJob(
      absl::StrCat("dataset: {path: ", path, "}\nfeatures:\n  - {name: age, kind: numeric}\n",
                   "  - {name: shop, kind: categorical}\nlabel: {column: bought}\n",
                   "model: {kind: wide_deep, deep: {hidden: [4, 3]}, layer_norm: true}\n",
                   "optimizer: {dense: ", dense, ", table: {kind: adagrad, l2: 0.25}}\n",
                   regularization),
      "job.yaml");
}

double L2Of(const JobSpec& job, const std::string& variable) {
  return *kernels::FindParameter(OptimizerOf(job, variable), "l2");
}

TEST_CASE("a dense variable has the penalty of its kind, or of the longest name that fits") {
  const JobSpec plain = Must(Parse(""));
  CHECK(L2Of(plain, "deep/layer_0/kernel") == 0.5);
  CHECK(L2Of(plain, "deep/layer_0/bias") == 0.5);

  const JobSpec job = Must(
      Parse("regularization:\n  kernels: 0.1\n  biases: 0\n  layers:\n"
            "    - {name: deep/layer_1, l2: 0.2}\n    - {name: deep/layer_1/bias, l2: 0.3}\n"));
  CHECK(L2Of(job, "deep/layer_0/kernel") == 0.1);
  CHECK(L2Of(job, "wide/age") == 0.1);
  for (const char* bias : {"deep/layer_0/bias", "deep/layer_0/norm_scale",
                           "deep/layer_0/norm_shift", "wide/bias", "mean"}) {
    CHECK(L2Of(job, bias) == 0);
  }
  CHECK(L2Of(job, "deep/layer_1/kernel") == 0.2);
  CHECK(L2Of(job, "deep/layer_1/norm_scale") == 0.2);
  CHECK(L2Of(job, "deep/layer_1/bias") == 0.3);
  CHECK(L2Of(job, "deep/layer_10/kernel") == 0.1);  // is of no such layer
  // Tables have theirs, and whatever else an optimizer has stays.
  CHECK(*kernels::FindParameter(job.FindTable("shop")->optimizer, "l2") == 0.25);
  CHECK(OptimizerOf(job, "wide/age").kind() == "adam");

  const JobSpec only = Must(Parse("regularization: {biases: 0.75}\n"));
  CHECK(L2Of(only, "wide/age") == 0.5);
  CHECK(L2Of(only, "wide/bias") == 0.75);
}

TEST_CASE("a model's variables are made with their penalties, and a layer that it lacks is told") {
  const DataFiles files;
  const std::string path = files.Write("a.csv", "age,shop,bought\n1,a,0\n2,b,1\n3,a,1\n");
  const auto create = [&](const std::string& layer, std::map<std::string, double>* made) {
    const JobSpec job = Must(Parse(
        absl::StrCat("regularization: {biases: 0.125, layers: [{name: ", layer, ", l2: 2}]}\n"),
        "{kind: adam}", path));
    ParameterServerStrategy strategy(testing::MustStart(1, 1, 1));
    data::DatasetOptions options;
    options.spec = job.dataset;
    options.batch_size = 2;
    const PerWorkerDataset dataset = Must(strategy.CreatePerWorkerDataset(options));
    const absl::Status status = model::Model::Create(&strategy, job, dataset).status();
    for (const auto& info : strategy.variables()) {
      const auto l2 = kernels::FindParameter(info->optimizer, "l2");
      if (l2 && made != nullptr) (*made)[info->name] = *l2;
    }
    return status;
  };
  std::map<std::string, double> made;
  Must(create("deep/layer_1", &made));
  CHECK(made.at("deep/layer_0/kernel") == 0);
  CHECK(made.at("deep/layer_0/bias") == 0.125);
  CHECK(made.at("deep/layer_1/kernel") == 2);
  CHECK(made.at("deep/layer_1/bias") == 2);
  CHECK(made.at("shop") == 0.25);
  const absl::Status unknown = create("deep/layer_7", nullptr);
  CHECK(absl::IsInvalidArgument(unknown));
  CHECK_THAT(std::string(unknown.message()),
             Contains("job.yaml:8:") && Contains("regularization.layers.deep/layer_7") &&
                 Contains("deep/layer_0/bias, deep/layer_0/kernel"));
}

TEST_CASE("penalties that cannot be are refused, by file and line") {
  const auto error = [](const std::string& regularization,
                        const std::string& dense = "{kind: adam}") {
    return std::string(Parse(regularization, dense).status().message());
  };
  CHECK_THAT(error("regularization: {kernels: -1}\n"), Contains("job.yaml:8:"));
  CHECK_THAT(error("regularization: {tables: 1}\n"), Contains("job.yaml:8:"));
  CHECK_THAT(error("regularization: {layers: [{name: deep}]}\n"), Contains("'l2' is missing"));
  CHECK_THAT(error("regularization: {layers: [{name: deep, l2: 1}, {name: deep, l2: 2}]}\n"),
             Contains("a second layer of the name 'deep'"));
}

}  // namespace
}  // namespace coxswain::job
