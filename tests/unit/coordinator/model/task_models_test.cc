// shared_bottom and mmoe against their formulas, in plain loops; tasks with weights of their own;
// what is measured of each task.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/job/loss_kind.h"
#include "coordinator/model/metrics.h"
#include "coordinator/model/task_model.h"
#include "tests/testing/reference_gradient.h"

namespace coxswain::model {
namespace {

using testing::CheckStepIsGradient;
using testing::CrossEntropy;
using testing::Must;
using testing::Row;
using testing::TanhLayers;
using testing::Trained;

// shop, age; the labels click, stars; how much a row counts for stars.
constexpr char kRatings[] =
    "shop,age,click,stars,known\na,1,1,3,1\nb,-2,0,1.5,2\nc,0.5,1,4,0\n"
    "a,0,0,2,1\nb,2,1,-1,0.5\n";
struct Rating {
  const char* shop;
  double age, click, stars, known;
};
constexpr Rating kRows[] = {{"a", 1, 1, 3, 1},
                            {"b", -2, 0, 1.5, 2},
                            {"c", 0.5, 1, 4, 0},
                            {"a", 0, 0, 2, 1},
                            {"b", 2, 1, -1, 0.5}};

std::string Job(const std::string& model) {
  return absl::StrCat(
      "features:\n  - {name: shop, kind: categorical, dim: 3}\n  - {name: age, kind: numeric}\n",
      "labels:\n  - {name: click, column: click}\n",
      "  - {name: stars, column: stars, weight: known, loss: {kind: mse}, loss_weight: 0.25}\n",
      "model: ", model, "\n");
}

Row Input(const Trained& t, const Rating& r) {
  Row x = t.Vector("shop", r.shop, 3);
  x.push_back(r.age);
  return x;
}

struct Scores {
  double click, stars;
};

Scores SharedBottom(const Trained& t, const Rating& r) {
  const Row shared = TanhLayers(t, "bottom", Input(t, r), true);
  return {TanhLayers(t, "tower/click", shared, false)[0],
          TanhLayers(t, "tower/stars", shared, false)[0]};
}

double MmoeScore(const Trained& t, const Row& x, const std::string& task, size_t experts) {
  const Row& gate = t.values.at("gate/" + task);
  REQUIRE(gate.size() == x.size() * experts);
  Row seen;
  double sum = 0;
  for (size_t e = 0; e < experts; ++e) {
    double logit = 0;
    for (size_t i = 0; i < x.size(); ++i) logit += x[i] * gate[i * experts + e];
    const Row said = TanhLayers(t, absl::StrCat("expert_", e), x, true);
    seen.resize(said.size(), 0.0);
    for (size_t d = 0; d < said.size(); ++d) seen[d] += std::exp(logit) * said[d];
    sum += std::exp(logit);
  }
  for (double& v : seen) v /= sum;
  return TanhLayers(t, "tower/" + task, seen, false)[0];
}

Scores Mmoe(const Trained& t, const Rating& r) {
  const Row x = Input(t, r);
  return {MmoeScore(t, x, "click", 3), MmoeScore(t, x, "stars", 3)};
}

template <typename Score>
double Loss(const Trained& t, Score score) {
  double click = 0, stars = 0, known = 0;
  for (const Rating& r : kRows) {
    const Scores s = score(t, r);
    click += CrossEntropy(s.click, r.click) / 5;
    stars += r.known * (s.stars - r.stars) * (s.stars - r.stars);
    known += r.known;
  }
  return click + 0.25 * stars / known;
}

template <typename Score>
void CheckModel(const std::string& model, Score score) {
  Trained t(kRatings, Job(model), 5, 7);
  REQUIRE(t.evaluated.size() == 6);  // of click its logits too, of stars its weights
  for (size_t i = 0; i < 5; ++i) {
    INFO("row " << i);
    const Scores s = score(t, kRows[i]);
    CHECK(t.evaluated[0][i] == Approx(1 / (1 + std::exp(-s.click))).epsilon(1e-4));
    CHECK(t.evaluated[1][i] == kRows[i].click);
    CHECK(t.evaluated[2][i] == Approx(s.click).epsilon(1e-4).margin(1e-5));
    CHECK(t.evaluated[3][i] == Approx(s.stars).epsilon(1e-4).margin(1e-5));
    CHECK(t.evaluated[4][i] == kRows[i].stars);
    CHECK(t.evaluated[5][i] == kRows[i].known);
  }
  const Trained next(kRatings, Job(model), 5, 8);
  CheckStepIsGradient(&t, next, [&](const Trained& at) { return Loss(at, score); });
}

TEST_CASE("shared_bottom: towers on shared layers, and its step is the gradient of all losses") {
  CheckModel("{kind: shared_bottom, hidden: [4, 3], tower: [2], activation: tanh}", SharedBottom);
  CheckModel("{kind: shared_bottom, hidden: [], tower: [3], activation: tanh}", SharedBottom);
}

TEST_CASE("mmoe: a tower sees experts by its gate, and its step is the gradient of all losses") {
  CheckModel("{kind: mmoe, experts: 3, hidden: [4, 3], tower: [2], activation: tanh}", Mmoe);
  CheckModel("{kind: mmoe, experts: 3, hidden: [4], tower: [], activation: tanh}", Mmoe);
}

TEST_CASE("mmoe: experts begin different from one another") {
  const Trained t(kRatings, Job("{kind: mmoe, experts: 2, hidden: [4]}"), 5, 1);
  CHECK(t.values.at("expert_0/layer_0/kernel") != t.values.at("expert_1/layer_0/kernel"));
  CHECK(t.values.at("gate/click") != t.values.at("gate/stars"));
}

TEST_CASE("tasks: a row of weight 0 has no part in a task's loss, whatever its label is") {
  const auto train = [](const std::string& unknown) {
    const std::string rows = absl::StrCat("shop,age,click,stars,known\na,1,1,3,1\nb,-2,0,1.5,2\n",
                                          "c,0.5,", unknown, ",", unknown, ",0\na,0,0,2,1\n");
    const std::string job =
        "features:\n  - {name: shop, kind: categorical, dim: 3}\n  - {name: age, kind: numeric}\n"
        "labels:\n  - {name: click, column: click, weight: known}\n"
        "  - {name: stars, column: stars, weight: known, loss: {kind: mse}}\n"
        "model: {kind: shared_bottom, hidden: [4], tower: [2]}\n";
    return Trained(rows, job, 4, 3).values;
  };
  const auto wanted = train("1");
  CHECK(train("-1") == wanted);
  CHECK(train("1e30") == wanted);
}

TEST_CASE("tasks: metrics of each are of its own predictions, labels and weights") {
  const DataFiles files;
  const job::JobSpec job = Must(job::ParseJob(
      absl::StrCat("dataset: {path: ", files.Write("a.csv", kRatings), "}\n",
                   Job("{kind: shared_bottom}"), "evaluate: {metrics: [click/logloss, mae]}\n",
                   "split: {test: 0.2}\n"),
      "job.yaml"));
  REQUIRE(job.evaluate.metrics.size() == 2);
  CHECK(job.evaluate.metrics[1].name == "stars/mae");  // the only task it says something about
  MetricAccumulator metrics(job.evaluate.metrics);
  const auto tensor = [](std::vector<float> values) { return Tensor::FromVector(values); };
  const std::vector<Tensor> results = {tensor({0.5f, 0.25f}), tensor({1, 0}), tensor({0, -1}),
                                       tensor({3, 5}),        tensor({1, 4}), tensor({3, 1})};
  REQUIRE(AddTasks(job, results, {}, &metrics).ok());
  const auto values = metrics.Compute();
  CHECK(values.at("click/logloss") == Approx(-(std::log(0.5) + std::log(0.75)) / 2));
  CHECK(values.at("stars/mae") == Approx((3 * 2 + 1 * 1) / 4.0));
  CHECK(metrics.examples() == 2);
  CHECK_FALSE(AddTasks(job, absl::MakeSpan(results).subspan(1), {}, &metrics).ok());
  CHECK_FALSE(AddTasks(job, absl::MakeSpan(results).first(5), {}, &metrics).ok());
  const std::vector<Tensor> more(7, results[0]);
  CHECK_FALSE(AddTasks(job, more, {}, &metrics).ok());
}

TEST_CASE("tasks: the metric of a list of labels is the mean of its classes' that are defined") {
  const job::MetricKind* const auc = job::FindMetricKind("auc");
  MetricAccumulator metrics({{auc, 0, "genre/auc", /*task=*/1, /*tasks=*/3},
                             {auc, 0, "genre-b/auc", /*task=*/2},
                             {auc, 0, "other/auc", /*task=*/0}});
  const auto tensor = [](std::vector<float> values) { return Tensor::FromVector(values); };
  const auto add = [&](size_t task, const std::vector<float>& predictions) {
    const std::vector<float> labels =
        task == 3 ? std::vector<float>{0, 0, 0} : std::vector<float>{0, 1, 1};
    REQUIRE(metrics.AddPredictions(tensor(predictions), tensor(labels), {.task = task}).ok());
  };
  add(0, {0.1f, 0.2f, 0.3f});
  add(1, {0.5f, 0.2f, 0.7f});  // 0.5
  add(2, {0.1f, 0.2f, 0.7f});  // 1
  add(3, {0.1f, 0.2f, 0.7f});  // no label is 1
  const auto values = metrics.Compute();
  CHECK(values.at("genre/auc") == Approx(0.75));
  CHECK(values.at("genre-b/auc") == Approx(1));
  CHECK(values.at("other/auc") == Approx(1));
  CHECK(metrics.Undefined().empty());
  // A prediction that is no number is not left out of the mean.
  add(3, {0.1f, std::nanf(""), 0.7f});
  CHECK(std::isnan(metrics.Compute().at("genre/auc")));
  CHECK(metrics.Undefined().count("genre/auc") == 1);
  CHECK(metrics.Undefined().count("other/auc") == 0);
}

TEST_CASE("tasks: the metric of a list of labels whose classes have none is undefined") {
  const job::MetricKind* const auc = job::FindMetricKind("auc");
  MetricAccumulator metrics({{auc, 0, "genre/auc", /*task=*/0, /*tasks=*/2}});
  const Tensor zeros = Tensor::FromVector<float>({0, 0});
  for (const size_t task : {size_t{0}, size_t{1}}) {
    REQUIRE(metrics.AddPredictions(zeros, zeros, {.task = task}).ok());
  }
  CHECK(std::isnan(metrics.Compute().at("genre/auc")));
  CHECK_FALSE(metrics.Undefined().at("genre/auc").empty());
}

// Two labels that go by other parts of the same inputs, so that no single score fits both.
TEST_CASE("mmoe and shared_bottom learn two planted labels that contradict each other") {
  std::string csv = "x,y,one,other\n";
  int rows = 0;
  for (int i = -8; i <= 8; ++i) {
    for (int j = -8; j <= 8; ++j, ++rows) {
      absl::StrAppend(&csv, i / 4.0, ",", j / 4.0, ",", (i + j > 0) ? 1 : 0, ",",
                      (i * i + j * j < 36) ? 1 : 0, "\n");
    }
  }
  const std::string rest =
      "features:\n  - {name: x, kind: numeric}\n  - {name: y, kind: numeric}\n"
      "labels:\n  - {name: one, column: one}\n  - {name: other, column: other}\nmodel: ";
  for (const char* model : {"{kind: mmoe, experts: 4, hidden: [16], tower: [8]}\n",
                            "{kind: shared_bottom, hidden: [24], tower: [8]}\n"}) {
    CAPTURE(model);
    const Trained t(csv, rest + model, rows, 1500);
    for (const size_t task : {size_t{0}, size_t{1}}) {
      int right = 0;
      for (size_t i = 0; i < t.evaluated[3 * task].size(); ++i) {
        right += (t.evaluated[3 * task][i] > 0.5) == (t.evaluated[3 * task + 1][i] > 0.5);
      }
      CAPTURE(task);
      CHECK(right > 0.95 * rows);
    }
  }
}

}  // namespace
}  // namespace coxswain::model
