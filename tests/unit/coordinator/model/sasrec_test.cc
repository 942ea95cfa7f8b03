// sasrec against its formula, in plain loops, and its step against the numeric gradient.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/model/saved_history.h"
#include "coordinator/predict/predictor.h"
#include "tests/testing/reference_gradient.h"
#include "tests/testing/saved_jobs.h"

namespace coxswain::model {
namespace {

using Catch::Matchers::Contains;
using testing::CheckStepIsGradient;
using testing::Dot;
using testing::Row;
using testing::Trained;

// Who took what, and when; of u all four, of v three.
constexpr char kVisits[] = "user,item,time\nu,a,1\nv,b,1\nu,b,2\nv,c,2\nu,c,3\nv,a,3\nu,a,4\n";
struct Visit {
  char user;
  std::string item;
  std::vector<std::string> before;  // the last three of the user, oldest first
};
const std::vector<Visit> kRows = {
    {'u', "a", {}},         {'v', "b", {}},         {'u', "b", {"a"}},          {'v', "c", {"b"}},
    {'u', "c", {"a", "b"}}, {'v', "a", {"b", "c"}}, {'u', "a", {"a", "b", "c"}}};

std::string Job(const std::string& model,
                const std::string& history = ", by: time, max_values: 3") {
  return absl::StrCat("features:\n  - {name: item, kind: categorical, oov_buckets: 0}\n",
                      "  - {name: seen, kind: history, history_of: item, group_by: user", history,
                      "}\nmodel: ", model, "\nloss: {kind: full_softmax}\n");
}

Row Times(const Row& x, const Row& matrix) {
  Row y(matrix.size() / x.size(), 0.0);
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t j = 0; j < y.size(); ++j) y[j] += x[i] * matrix[i * y.size() + j];
  }
  return y;
}

Row Norm(const Trained& t, const std::string& name, const Row& x) {
  double mean = 0, variance = 0;
  const double n = static_cast<double>(x.size());
  for (const double v : x) mean += v / n;
  for (const double v : x) variance += (v - mean) * (v - mean) / n;
  Row y;
  for (size_t d = 0; d < x.size(); ++d) {
    y.push_back((x[d] - mean) / std::sqrt(variance + 1e-5) * t.values.at(name + "/norm_scale")[d] +
                t.values.at(name + "/norm_shift")[d]);
  }
  return y;
}

void AddTo(Row* x, const Row& y) {
  for (size_t d = 0; d < x->size(); ++d) (*x)[d] += y[d];
}

void Attend(const Trained& t, const std::string& block, size_t heads, std::vector<Row>* all) {
  std::vector<Row> q, k, v;
  for (const Row& x : *all) {
    const Row h = Norm(t, block + "attention", x);
    q.push_back(Times(h, t.values.at(block + "query")));
    k.push_back(Times(h, t.values.at(block + "key")));
    v.push_back(Times(h, t.values.at(block + "value")));
  }
  const size_t width = q[0].size() / heads;
  for (size_t i = 0; i < all->size(); ++i) {
    for (size_t h = 0; h < heads; ++h) {
      Row weights;
      double sum = 0;
      for (size_t j = 0; j <= i; ++j) {
        double score = 0;
        for (size_t d = h * width; d < (h + 1) * width; ++d) score += q[i][d] * k[j][d];
        weights.push_back(std::exp(score / std::sqrt(static_cast<double>(width))));
        sum += weights.back();
      }
      for (size_t j = 0; j <= i; ++j) {
        for (size_t d = h * width; d < (h + 1) * width; ++d) {
          (*all)[i][d] += weights[j] / sum * v[j][d];
        }
      }
    }
  }
}

Row User(const Trained& t, const std::vector<std::string>& before, int blocks, size_t heads) {
  if (before.empty()) return Row(4, 0.0);
  std::vector<Row> all;
  for (size_t e = 0; e < before.size(); ++e) {
    Row x = t.Vector("item", before[e], 4);
    const auto place = static_cast<int64_t>(before.size() - 1 - e) * 4;
    const Row& positions = t.values.at("positions");
    AddTo(&x, Row(positions.begin() + place, positions.begin() + place + 4));
    all.push_back(x);
  }
  for (int b = 0; b < blocks; ++b) {
    const std::string block = absl::StrCat("block_", b, "/");
    Attend(t, block, heads, &all);
    for (Row& x : all) {
      AddTo(&x, testing::Layers(t, block + "layers", Norm(t, block + "layers", x), false));
    }
  }
  return Norm(t, "last", all.back());
}

double Loss(const Trained& t, int blocks, size_t heads) {
  double loss = 0;
  for (const Visit& visit : kRows) {
    const Row user = User(t, visit.before, blocks, heads);
    double sum = 0;
    for (const char* item : {"a", "b", "c"}) sum += std::exp(Dot(user, t.Vector("item", item, 4)));
    loss -= Dot(user, t.Vector("item", visit.item, 4)) - std::log(sum);
  }
  return loss / static_cast<double>(kRows.size());
}

TEST_CASE("sasrec: its step is the gradient of the plain formula, with one head and with two") {
  for (const int heads : {1, 2}) {
    CAPTURE(heads);
    const std::string job =
        Job(absl::StrCat("{kind: sasrec, history: seen, dim: 4, blocks: 2, heads: ", heads, "}"));
    Trained before(kVisits, job, 7, 5);
    const Trained after(kVisits, job, 7, 6);
    CheckStepIsGradient(&before, after,
                        [&](const Trained& t) { return Loss(t, 2, static_cast<size_t>(heads)); });
  }
}

TEST_CASE("sasrec: learns which item follows which, that no bag of items tells") {
  // Everybody goes round the same ring, forward or backward: what comes next depends on the order.
  std::string csv = "user,item,time\n";
  const std::string ring = "abcdxyz";
  int rows = 0;
  for (int user = 0; user < 28; ++user) {
    for (int i = 0; i < 6; ++i, ++rows) {
      const int step = user % 2 == 0 ? i : 70 - i;
      absl::StrAppend(&csv, "u", user, ",",
                      ring.substr(static_cast<size_t>((user / 2 + step) % 7), 1), ",", i, "\n");
    }
  }
  const Trained t(csv, Job("{kind: sasrec, history: seen, dim: 16, blocks: 1}"), rows, 2000);
  // Of a user's six items nobody can know the first, and of the second only that it is one of two.
  // Who does not see the order has two to choose from for the other four as well.
  const double best = (std::log(7.0) + std::log(2.0)) / 6,
               without_order = best + std::log(2.0) * 4 / 6;
  CHECK(t.losses.back() < (best + without_order) / 2);
}

TEST_CASE(
    "sasrec: a saved model keeps histories in their order, and scores a row as its job does") {
  const DataFiles files;
  files.Write("visits.csv", "user,item,time\nu,c,1\nv,b,1\nu,a,2\nv,c,2\nu,b,3\nv,a,3\nu,c,4\n");
  const SavedJob saved = TrainAndSave(
      files, "dataset: {path: visits.csv}\n" + Job("{kind: sasrec, history: seen, dim: 4}") +
                 "split: {holdout_per: user, by: time, holdout_last: true}\n"
                 "train: {batch_size: 2}\n");
  const auto history = testing::Must(SavedHistory::Load(saved.directory, 4));
  const auto predictor = testing::Must(predict::Predictor::Load(saved.directory));
  std::string names;
  for (const int64_t id : history.Values(*history.Find("u"))) names += predictor->NameOf(id);
  CHECK(names == "cab");
  const std::vector<int64_t> longer = {5, 1, 2, 0};
  const auto seen = job::SeenOf(predictor->job(), longer);
  CHECK(std::vector<int64_t>(seen.begin(), seen.end()) == std::vector<int64_t>{1, 2, 0});
  // The order makes a difference.
  const std::vector<std::string> columns = {"seen"};
  const std::vector<data::RowReader::Cells> cells = {{"c|a|b"}, {"b|a|c"}};
  const auto rows = testing::Must(predictor->rows().ReadCells(columns, cells));
  const auto scores = testing::Must(predictor->Predict(testing::Must(rows.Read(0, 2))));
  REQUIRE(scores.score.dim(0) == 2);
  bool differs = false;
  for (int64_t i = 0; i < scores.score.dim(1); ++i) {
    differs = differs || std::abs(scores.score.data<float>()[i] -
                                  scores.score.data<float>()[scores.score.dim(1) + i]) > 1e-4f;
  }
  CHECK(differs);
}

TEST_CASE("sasrec: what is wrong with its history is said") {
  const auto error = [](const std::string& text) {
    const auto job = job::ParseJob("dataset: {path: a.csv}\n" + text, "job.yaml");
    REQUIRE_FALSE(job.ok());
    return std::string(job.status().message());
  };
  const std::string model = "{kind: sasrec, history: seen}";
  CHECK_THAT(error(Job(model, ", max_values: 3")), Contains("with by and max_values"));
  CHECK_THAT(error(Job(model, ", by: time")), Contains("with by and max_values"));
  CHECK_THAT(error(Job("{kind: sasrec, history: item}")), Contains("with by and max_values"));
  CHECK_THAT(error(Job("{kind: sasrec, history: none}")), Contains("unknown feature 'none'"));
  CHECK_THAT(error(Job("{kind: sasrec, history: seen, dim: 6, heads: 4}")),
             Contains("model.heads: wanted a divisor of dim, 6"));
}

}  // namespace
}  // namespace coxswain::model
