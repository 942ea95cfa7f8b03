// A row with a weight of n trains like n rows: every kind of model with every loss that has labels.
// So one with a weight of 0 has no part, whatever its label.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/model/model.h"
#include "runtime/data/dataset_options.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"

namespace coxswain::model {
namespace {

using testing::Must;
using testing::MustStart;
using testing::ToVector;

struct Row {
  const char* fields;  // shop,film,age,bought,stars,kind
  int weight;
};
constexpr Row kWeighted[] = {{"a,x,1,1,4.5,0", 2}, {"b,y,-2,0,1,1", 1}, {"c,z,0.5,1,3,2", 3},
                             {"a,w,0,0,2.5,1", 0}, {"b,x,2,1,5,0", 1},  {"c,y,-1,0,2,2", 4},
                             {"a,y,0.25,1,4,1", 2}};

// The variables after some steps, each on all rows; a row with a weight, or as often as it says.
std::map<std::string, std::vector<float>> Train(const std::string& model,
                                                absl::Span<const Row> rows, bool repeated) {
  const DataFiles files;
  std::string text = "shop,film,age,bought,stars,kind,count\n";
  for (const Row& row : rows) {
    for (int i = 0; i < (repeated ? row.weight : 1); ++i) {
      absl::StrAppend(&text, row.fields, ",", row.weight, "\n");
    }
  }
  // Listed vocabularies: the ids of learned ones go by the number of rows.
  std::string job_text = absl::StrCat(
      "dataset: {path: ", files.Write("a.csv", text), "}\nfeatures:\n",
      "  - {name: shop, kind: categorical, vocabulary: [a, b, c], oov_buckets: 0}\n",
      "  - {name: film, kind: categorical, vocabulary: [w, x, y, z], oov_buckets: 0}\n",
      "  - {name: age, kind: numeric}\n", model, "\n",
      "optimizer: {table: {kind: sgd, learning_rate: 0.3}, ",
      "dense: {kind: sgd, learning_rate: 0.1}}\n");
  std::vector<std::string> sets = {"train.shuffle=false"};
  if (!repeated) sets.push_back("label.weight=count");
  const job::JobSpec job = Must(job::ParseJob(job_text, "job.yaml", sets));
  ParameterServerStrategy strategy(MustStart(1, 1, 1));
  data::DatasetOptions options;
  options.spec = job.dataset;
  options.batch_size = 100;
  options.epochs = 4;
  PerWorkerDataset dataset = Must(strategy.CreatePerWorkerDataset(options));
  const auto built = Must(Model::Create(&strategy, job, dataset));
  ClusterCoordinator coordinator(strategy);
  const RemoteFunction step = Must(built->DefineTrain());
  std::map<std::string, std::vector<float>> values;
  while (const auto ticket = dataset.NextTicket()) {
    const RemoteValue value = coordinator.Schedule(step, *ticket);
    values["loss"].push_back(Must(coordinator.Fetch<float>(value, "loss")));
  }
  for (const auto& info : strategy.variables()) {
    const int64_t rows = info->shape.rank() == 0 ? 1 : info->shape.dim(0);
    values[info->name] = ToVector<float>(Must(strategy.ReadShard(*info, 0, 0, rows)));
  }
  return values;
}

TEST_CASE("weights of rows give the gradient of rows that come as often", "[model]") {
  const char* const models[] = {
      "label: {column: bought}\nmodel: {kind: logistic_regression}",
      "label: {column: bought}\nmodel: {kind: wide_deep, deep: {hidden: [4]}}",
      "label: {column: bought}\nmodel: {kind: mlp, hidden: [4], activation: tanh}",
      "label: {column: stars}\nmodel: {kind: mlp, hidden: [4]}\nloss: {kind: mse}",
      "label: {column: kind}\nmodel: {kind: mlp, hidden: [4], classes: 3}",
      "label: {feature: film}\nmodel: {kind: mlp, hidden: [4], classes: 4, features: [shop, age]}",
      "label: {column: stars}\nmodel: {kind: matrix_factorization, user: {feature: shop}, item: "
      "{feature: film}, dim: 4, biases: false}",
      "label: {column: bought}\nmodel: {kind: dlrm, dim: 4, bottom: [4], top: [4]}",
      "label: {column: bought}\nmodel: {kind: deepfm, dim: 4, hidden: [4]}",
      "label: {column: bought}\nmodel: {kind: ffm, dim: 4}",
      "label: {column: bought}\nmodel: {kind: autoint, dim: 4, head_dim: 4, hidden: [4]}",
      "model: {kind: two_tower, user: {features: [shop]}, item: {feature: film}, dim: 4}\n"
      "loss: {kind: sampled_softmax, negatives: 8}",
      "model: {kind: two_tower, user: {features: [shop]}, item: {feature: film}, dim: 4}\n"
      "loss: {kind: sampled_softmax, negatives: 8, reject_known: true}",
      "model: {kind: two_tower, user: {features: [shop]}, item: {feature: film}, dim: 4}\n"
      "loss: {kind: bpr, negatives: 8}",
      "model: {kind: two_tower, user: {features: [shop]}, item: {feature: film}, dim: 4}\n"
      "loss: {kind: full_softmax}",
      "label: {column: bought}\nmodel: {kind: mlp, hidden: [4], layer_norm: true}\n"
      "loss: {kind: focal}",
      "label: {column: bought}\nmodel: {kind: logistic_regression}\nloss: {kind: hinge}",
      "label: {column: kind}\nmodel: {kind: logistic_regression, classes: 3}",
      "label: {column: stars}\nmodel: {kind: linear_regression}\nloss: {kind: huber, delta: 0.5}",
      "label: {column: stars}\nmodel: {kind: linear_regression}\nloss: {kind: mae}",
      "label: {column: bought}\nmodel: {kind: dcn_v2, cross_layers: 2, rank: 3, hidden: [4]}",
      "label: {column: bought}\nmodel: {kind: dcn_v2, structure: parallel, hidden: [4]}\n"
      "train: {clip: {kind: norm, limit: 0.1}}",
  };
  for (const char* model : models) {
    INFO(model);
    const auto weighted = Train(model, kWeighted, false), repeated = Train(model, kWeighted, true);
    REQUIRE(weighted.size() == repeated.size());
    CHECK(weighted.at("loss").size() == 4);
    bool moved = false;
    for (const auto& [name, values] : repeated) {
      INFO(name);
      REQUIRE(weighted.at(name).size() == values.size());
      for (size_t i = 0; i < values.size(); ++i) {
        moved = moved || values[i] != 0;
        CHECK(weighted.at(name)[i] == Approx(values[i]).margin(2e-6).epsilon(1e-4));
      }
    }
    CHECK(moved);
  }
}

TEST_CASE("a row of weight 0 has no part in training, whatever its label is", "[model]") {
  constexpr Row kKnown[] = {{"a,x,1,1,4.5,0", 1}, {"b,y,-2,0,1,1", 1}, {"c,z,0.5,1,3,2", 1}};
  std::vector<Row> rows(std::begin(kKnown), std::end(kKnown));
  rows.push_back({"a,w,0,-1,-1,-1", 0});
  rows.push_back({"b,w,0,1e30,3e38,1e30", 0});
  rows.push_back({"c,w,0,-3e38,-3e38,3", 0});
  const std::string factors = "model: {kind: matrix_factorization, user: {feature: shop}, ";
  const std::string models[] = {
      "label: {column: bought}\nmodel: {kind: logistic_regression}",
      "label: {column: bought}\nmodel: {kind: logistic_regression}\nloss: {kind: hinge}",
      "label: {column: bought}\nmodel: {kind: mlp, hidden: [4]}\nloss: {kind: focal}",
      "label: {column: kind}\nmodel: {kind: mlp, hidden: [4], classes: 3}",
      "label: {column: stars}\nmodel: {kind: linear_regression}\nloss: {kind: mse}",
      "label: {column: stars}\nmodel: {kind: linear_regression}\nloss: {kind: mae}",
      "label: {column: stars}\nmodel: {kind: linear_regression}\nloss: {kind: huber}",
      "label: {column: stars}\n" + factors + "item: {feature: film}, dim: 4}",
  };
  for (const std::string& model : models) {
    INFO(model);
    const auto with = Train(model, rows, false), without = Train(model, kKnown, true);
    for (const auto& [name, values] : without) {
      INFO(name);
      REQUIRE(with.at(name).size() == values.size());
      for (size_t i = 0; i < values.size(); ++i) {
        CHECK(with.at(name)[i] == Approx(values[i]).margin(1e-6));
      }
    }
  }
  // Nor has one whose prediction is so far off that its loss is infinite.
  rows.push_back({"a,w,1e25,1,1,1", 0});
  const auto trained = Train(models[4], rows, false);
  for (const float loss : trained.at("loss")) CHECK(std::isfinite(loss));
}

TEST_CASE("a batch whose weights are all 0 changes nothing", "[model]") {
  const DataFiles files;
  const job::JobSpec job = Must(job::ParseJob(
      absl::StrCat("dataset: {path: ", files.Write("a.csv", "c,y,w\na,1,0\nb,0,0\n"), "}\n",
                   "features: [{name: c, kind: categorical}]\n",
                   "label: {column: y, weight: w}\nmodel: {kind: logistic_regression}\n",
                   "optimizer: {table: {kind: sgd}, dense: {kind: sgd}}\n"),
      "job.yaml"));
  ParameterServerStrategy strategy(MustStart(1, 1, 1));
  data::DatasetOptions options;
  options.spec = job.dataset;
  options.batch_size = 2;
  options.epochs = 2;
  PerWorkerDataset dataset = Must(strategy.CreatePerWorkerDataset(options));
  const auto built = Must(Model::Create(&strategy, job, dataset));
  ClusterCoordinator coordinator(strategy);
  const RemoteFunction step = Must(built->DefineTrain());
  while (const auto ticket = dataset.NextTicket()) {
    const RemoteValue value = coordinator.Schedule(step, *ticket);
    CHECK(Must(coordinator.Fetch<float>(value, "loss")) == 0);
  }
  for (const auto& info : strategy.variables()) {
    const int64_t rows = info->shape.rank() == 0 ? 1 : info->shape.dim(0);
    for (const float x : ToVector<float>(Must(strategy.ReadShard(*info, 0, 0, rows)))) {
      CHECK(x == 0);
    }
  }
}

}  // namespace
}  // namespace coxswain::model
