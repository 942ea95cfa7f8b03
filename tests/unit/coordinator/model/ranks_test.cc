// The ranks that an evaluation gives, against plain loops over the values of the variables.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/model/item_search.h"
#include "coordinator/model/model.h"
#include "coordinator/model/model_parts.h"
#include "runtime/data/dataset.h"
#include "runtime/data/dataset_options.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"
#include "tests/testing/items_on_cluster.h"

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
  REQUIRE(results.size() == rank + (all ? 2 : 3));  // without `all` also known.unseen
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

// A two_tower whose items go through layers, as it begins: all scores of the test part's examples,
// as a process that reads all items makes them, and what the search says.
struct Searched {
  explicit Searched(const ItemSearch::Limits& limits) {
    const DataFiles files;
    const job::JobSpec job = Must(job::ParseJob(
        absl::StrCat("dataset: {path: ", files.Write("a.csv", Csv(kTraining)), "}\nfeatures:\n",
                     "  - {name: user, kind: categorical, dim: 3}\n",
                     "  - {name: item, kind: categorical, dim: 5}\n",
                     "split: {test_path: ", files.Write("t.csv", Csv(kTest)), "}\n",
                     "model: {kind: two_tower, dim: 4, normalize: true, ",
                     "user: {features: [user], hidden: [6]}, item: {feature: item, hidden: [6]}}\n",
                     "loss: {kind: sampled_softmax, temperature: 0.5}\n",
                     "tables: {item_bias: {init_stddev: 0.5}, item: {init_stddev: 1}}\n"),
        "job.yaml", {}));
    strategy.emplace(MustStart(2, 2, 1));
    const testing::ItemsOnCluster on(&*strategy, job, /*batch_size=*/100);
    const PerWorkerDataset& dataset = on.dataset;
    const ModelParts& parts = on.parts;
    const ItemModel& model = on.model;
    REQUIRE(model.in_pieces());
    items = parts.Candidates("item");
    const RemoteFunction all = Must(strategy->Define(
        "all", dataset,
        [&](FunctionBuilder& f) {
          model.Predict(f, parts);
          model.PredictUser(f, parts);
          f.Result("own", f.Column("item"));
          f.Result("values", f.Column("known.values"));
          f.Result("offsets", f.Column("known.offsets"));
        },
        Part::kTest));
    const RemoteFunction evaluate = Must(strategy->Define(
        "evaluate", dataset, [&](FunctionBuilder& f) { model.Evaluate(f, parts); }, Part::kTest));
    ClusterCoordinator coordinator(*strategy);
    const auto rows = static_cast<int64_t>(kTest.size());
    whole = Must(coordinator.Schedule(all, Ticket{Part::kTest, 0, 0, rows}).Get());
    std::vector<std::vector<Tensor>> evaluated;
    for (const auto& [begin, end] : std::vector<std::pair<int64_t, int64_t>>{{0, 3}, {3, rows}}) {
      evaluated.push_back(
          Must(coordinator.Schedule(evaluate, Ticket{Part::kTest, 0, begin, end}).Get()));
    }
    ItemSearch search(&*strategy, model, parts, limits);
    ranks = Must(search.Ranks(evaluated, [] { return false; }));
    best = Must(search.Best(whole[1], 3, [] { return false; }));
    stopped = search.Ranks(evaluated, [] { return true; }).status();
  }

  std::optional<ParameterServerStrategy> strategy;
  int64_t items = 0;
  std::vector<Tensor> whole;  // scores, users, own, known values, known offsets
  std::vector<int64_t> ranks;
  BestItems best;
  absl::Status stopped;
};

TEST_CASE("items that go through layers are ranked in pieces as all at once") {
  for (const int64_t piece : {1, 2, 3, 100}) {
    CAPTURE(piece);
    ItemSearch::Limits limits;
    limits.least = limits.most = piece;
    limits.users = 2;
    const Searched s(limits);
    REQUIRE(s.items == 7);
    const int64_t width = s.whole[0].dim(1);
    for (size_t i = 0; i < kTest.size(); ++i) {
      CAPTURE(i);
      const float* const scores = s.whole[0].data<float>() + static_cast<int64_t>(i) * width;
      const int64_t own = s.whole[2].data<int64_t>()[i];
      const int32_t* const at = s.whole[4].data<int32_t>() + i;
      const std::set<int64_t> known(s.whole[3].data<int64_t>() + at[0],
                                    s.whole[3].data<int64_t>() + at[1]);
      int64_t above = own < s.items ? 0 : s.items;
      for (int64_t j = 0; own < s.items && j < s.items; ++j) {
        above += j != own && known.count(j) == 0 && scores[j] > scores[own];
      }
      CHECK(s.ranks[i] == above);
      std::vector<std::pair<float, int64_t>> order;
      for (int64_t j = 0; j < s.items; ++j) order.push_back({-scores[j], j});
      std::sort(order.begin(), order.end());
      for (int64_t n = 0; n < 3; ++n) {
        const int64_t place = static_cast<int64_t>(i) * 3 + n;
        CHECK(s.best.ids.data<int64_t>()[place] == order[static_cast<size_t>(n)].second);
        CHECK(s.best.scores.data<float>()[place] ==
              Approx(-order[static_cast<size_t>(n)].first).margin(1e-6));
      }
    }
    CHECK(absl::IsCancelled(s.stopped));
  }
}

}  // namespace
}  // namespace coxswain::model
