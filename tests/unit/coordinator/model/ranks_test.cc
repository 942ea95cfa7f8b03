// The ranks that an evaluation gives, against plain loops over the values of the variables.
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/api/variable_info.h"
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
using testing::ToVector;

struct Row {
  std::string user, item;
};
const std::vector<Row> kTraining = {{"u", "a"}, {"u", "b"}, {"v", "c"}, {"v", "a"},
                                    {"w", "d"}, {"w", "e"}, {"u", "f"}, {"v", "g"}};
// "nobody" is no user of training, "z" no item of it; u has three rows here.
const std::vector<Row> kTest = {{"u", "c"}, {"u", "d"}, {"v", "b"},     {"nobody", "a"},
                                {"w", "z"}, {"u", "e"}, {"nobody", "b"}};

std::string Csv(const std::vector<Row>& rows) {
  std::string text = "user,item,stars\n";
  int row = 0;
  for (const Row& r : rows) absl::StrAppend(&text, r.user, ",", r.item, ",", ++row % 5, "\n");
  return text;
}

struct Evaluated {
  std::vector<int64_t> ranks, groups;
  std::vector<int64_t> wanted;
};

// Of a model without hidden layers, as it begins; `rank`: which of the results it is.
Evaluated Evaluate(const std::string& rest, bool all, size_t rank) {
  const DataFiles files;
  const job::JobSpec job = Must(job::ParseJob(
      absl::StrCat("dataset: {path: ", files.Write("a.csv", Csv(kTraining)), "}\nfeatures:\n",
                   "  - {name: user, kind: categorical}\n  - {name: item, kind: categorical}\n",
                   "split: {test_path: ", files.Write("t.csv", Csv(kTest)), "}\n", rest,
                   "tables: {item_bias: {init_stddev: 0.5}}\n"),
      "job.yaml", {absl::StrCat("evaluate.exclude_known=", all ? "all" : "training")}));
  ParameterServerStrategy strategy(MustStart(1, 1, 1));
  data::DatasetOptions options;
  options.spec = job.dataset;
  options.batch_size = 100;
  PerWorkerDataset dataset = Must(strategy.CreatePerWorkerDataset(options));
  const auto built = Must(Model::Create(&strategy, job, dataset));
  const RemoteFunction evaluate = Must(built->DefineEvaluate(Part::kTest));
  ClusterCoordinator coordinator(strategy);
  const Ticket test{Part::kTest, 0, 0, static_cast<int64_t>(kTest.size())};
  const std::vector<Tensor> results = Must(coordinator.Schedule(evaluate, test).Get());
  REQUIRE(results.size() == rank + 2);
  Evaluated evaluated{ToVector<int64_t>(results[rank]), ToVector<int64_t>(results[rank + 1]), {}};

  std::map<std::string, std::vector<float>> tables;
  for (const auto& info : strategy.variables()) {
    const int64_t rows = info->shape.dim(0);
    tables[info->name] = ToVector<float>(Must(strategy.ReadShard(*info, 0, 0, rows)));
  }
  const auto items = static_cast<int64_t>(dataset.data().vocabulary("item")->size());
  REQUIRE(items == 7);
  const auto id = [&](const char* feature, const std::string& text) {
    return *dataset.data().Lookup(feature, text);
  };
  std::map<std::string, std::set<int64_t>> known;
  for (const Row& r : kTraining) known[r.user].insert(id("item", r.item));
  for (const Row& r : kTest) {
    if (all) known[r.user].insert(id("item", r.item));
  }
  for (const Row& r : kTest) {
    const int64_t own = id("item", r.item);
    const auto score = [&](int64_t item) {
      float sum = tables.at("item_bias")[static_cast<size_t>(item)];
      for (int64_t d = 0; d < 4; ++d) {
        sum += tables.at("user")[static_cast<size_t>(id("user", r.user) * 4 + d)] *
               tables.at("item")[static_cast<size_t>(item * 4 + d)];
      }
      return sum;
    };
    int64_t above = own < items ? 0 : items;  // an unknown one ranks last
    for (int64_t other = 0; own < items && other < items; ++other) {
      if (other == own || known[r.user].count(other) > 0) continue;
      above += score(other) > score(own) ? 1 : 0;
    }
    evaluated.wanted.push_back(above);
  }
  return evaluated;
}

TEST_CASE("a row's item is ranked among those that its user is not known to have") {
  const std::string tower =
      "model: {kind: two_tower, user: {features: [user]}, item: {feature: item}, dim: 4}\n";
  const std::string factors =
      "label: {column: stars}\nmodel: {kind: matrix_factorization, user: {feature: user}, item: "
      "{feature: item}, dim: 4}\nevaluate: {metrics: [rmse, ndcg@5]}\n";
  for (const bool all : {true, false}) {
    INFO(all);
    for (const Evaluated& e : {Evaluate(tower, all, 0), Evaluate(factors, all, 2)}) {
      CHECK(e.ranks == e.wanted);
      REQUIRE(e.groups.size() == kTest.size());
      for (size_t i = 0; i < kTest.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
          CHECK((e.groups[i] == e.groups[j]) == (kTest[i].user == kTest[j].user));
        }
      }
    }
  }
}

}  // namespace
}  // namespace coxswain::model
