// lambdarank and listnet on queries of a data set, against plain loops; metrics of queries.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/model/metrics.h"
#include "runtime/data/hash.h"
#include "tests/testing/reference_gradient.h"

namespace coxswain::model {
namespace {

using Catch::Matchers::Contains;
using testing::CheckStepIsGradient;
using testing::Must;
using testing::Row;
using testing::TanhLayers;
using testing::Trained;

constexpr char kDocuments[] =
    "q,x,y,grade\na,1,0.5,2\na,-1,1,0\na,0.25,-2,1\nb,2,2,0\n"
    "c,0.5,0.1,0\nc,-0.5,0.75,3\n";
struct Document {
  int query;
  double x, y, grade;
};
constexpr Document kRows[] = {{0, 1, 0.5, 2}, {0, -1, 1, 0},    {0, 0.25, -2, 1},
                              {1, 2, 2, 0},   {2, 0.5, 0.1, 0}, {2, -0.5, 0.75, 3}};

std::string Job(const std::string& loss, const std::string& rest = "") {
  return absl::StrCat("features:\n  - {name: x, kind: numeric}\n  - {name: y, kind: numeric}\n",
                      "label: {column: grade}\nmodel: {kind: mlp, hidden: [4], activation: tanh}\n",
                      "loss: ", loss, "\n", rest);
}

Row ScoresOf(const Trained& t, int query) {
  Row scores;
  for (const Document& d : kRows) {
    if (d.query == query) scores.push_back(TanhLayers(t, "deep", {d.x, d.y}, false)[0]);
  }
  return scores;
}
Row GradesOf(int query) {
  Row grades;
  for (const Document& d : kRows) {
    if (d.query == query) grades.push_back(d.grade);
  }
  return grades;
}

double ListNet(const Row& scores, const Row& grades) {
  double of_scores = 0, of_grades = 0, loss = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    of_scores += std::exp(scores[i]);
    of_grades += std::exp(grades[i]);
  }
  for (size_t i = 0; i < scores.size(); ++i) {
    loss -= std::exp(grades[i]) / of_grades * std::log(std::exp(scores[i]) / of_scores);
  }
  return loss;
}

double LambdaRank(const Row& scores, const Row& grades) {
  const auto rank = [&](size_t i) {
    return std::count_if(scores.begin(), scores.end(), [&](double s) { return s > scores[i]; });
  };
  const auto discount = [](double r) { return 1 / std::log2(r + 2); };
  Row best = grades;
  std::sort(best.rbegin(), best.rend());
  double ideal = 0, loss = 0;
  for (size_t r = 0; r < best.size(); ++r) {
    ideal += (std::exp2(best[r]) - 1) * discount(static_cast<double>(r));
  }
  for (size_t i = 0; i < scores.size(); ++i) {
    for (size_t j = 0; j < scores.size(); ++j) {
      if (grades[i] <= grades[j]) continue;
      const double change =
          (std::exp2(grades[i]) - std::exp2(grades[j])) *
          std::abs(discount(static_cast<double>(rank(i))) - discount(static_cast<double>(rank(j))));
      loss += change / ideal * std::log1p(std::exp(-2 * (scores[i] - scores[j])));
    }
  }
  return loss;
}

template <typename Loss>
void CheckLoss(const std::string& loss, Loss of_query) {
  // Each step is one batch of all three queries: their number is what tickets count.
  std::string job = Job(loss);
  const auto trained = [&](int64_t steps) {
    return Trained(kDocuments, job, 3, steps, "query: q");
  };
  Trained before = trained(5);
  const Trained after = trained(6);
  CheckStepIsGradient(&before, after, [&](const Trained& t) {
    double sum = 0;
    for (int q = 0; q < 3; ++q) sum += of_query(ScoresOf(t, q), GradesOf(q));
    return sum / 3;
  });
}

TEST_CASE("listnet: its step is the gradient of the mean over queries") {
  CheckLoss("{kind: listnet}", ListNet);
}

TEST_CASE("lambdarank: its step is the gradient of the mean over queries") {
  CheckLoss("{kind: lambdarank, sigma: 2}", LambdaRank);
}

std::map<std::string, double> Measure(const std::string& metrics, const std::vector<float>& scores,
                                      const std::vector<float>& labels,
                                      const std::vector<int64_t>& groups) {
  const DataFiles files;
  const job::JobSpec job = Must(
      job::ParseJob(absl::StrCat("dataset: {path: ", files.Write("a.csv", kDocuments),
                                 ", query: q}\n", Job("{kind: listnet}", "split: {test: 0.5}\n"),
                                 "evaluate: {metrics: ", metrics, "}\n"),
                    "job.yaml"));
  MetricAccumulator all(job.evaluate.metrics);
  MeasuredExamples examples;
  examples.groups = groups;
  REQUIRE(
      all.AddPredictions(Tensor::FromVector(scores), Tensor::FromVector(labels), examples).ok());
  return all.Compute();
}

TEST_CASE("ndcg of labels of which 2 to their power is no number") {
  // 2^3000 - 1 is as good as 2^3000: the second place has 1 / log2(3) of the first.
  const auto values = Measure("[ndcg@10]", {1, 3}, {3000, 0}, {5, 5});
  CHECK(values.at("ndcg@10") == Approx(1 / std::log2(3.0)));
}

TEST_CASE("metrics of queries: by the order of scores in each, ties against the model") {
  // Query 5 in order: 0, 3, 1; query 9 has nothing relevant; query 2: a tie, 0 before 1.
  const auto values = Measure("[ndcg@10, ndcg@1, mrr, map@10, precision@2, recall@1]",
                              {1, 3, 2, 7, 8, 4, 4}, {1, 0, 3, 0, 0, 1, 0}, {5, 5, 5, 9, 9, 2, 2});
  const double log3 = std::log2(3.0);
  const double first = (7 / log3 + 1 / 2.0) / (7 + 1 / log3), second = 1 / log3;
  CHECK(values.at("ndcg@10") == Approx((first + second) / 2));
  CHECK(values.at("ndcg@1") == 0);
  CHECK(values.at("mrr") == Approx(0.5));
  CHECK(values.at("map@10") == Approx(((1 / 2.0 + 2 / 3.0) / 2 + 1 / 2.0) / 2));
  CHECK(values.at("precision@2") == Approx(0.5));
  CHECK(values.at("recall@1") == 0);
  CHECK(std::isnan(Measure("[mrr]", {1, 2}, {0, 0}, {1, 1}).at("mrr")));
}

std::string ErrorOf(const std::string& text) {
  const auto job = job::ParseJob(text, "job.yaml");
  REQUIRE_FALSE(job.ok());
  return std::string(job.status().message());
}

TEST_CASE("losses of queries: what a job has to say, and what their metrics are") {
  const std::string path = "dataset: {path: a.csv}\n", query = "dataset: {path: a.csv, query: q}\n";
  const std::string split = "split: {test: 0.5}\n";
  CHECK_THAT(ErrorOf(path + Job("{kind: listnet}")), Contains("wants dataset.query"));
  CHECK_THAT(ErrorOf(query + Job("{kind: listnet}", split + "evaluate: {group: x}\n")),
             Contains("the groups are the queries"));
  std::string weighted = query + Job("{kind: lambdarank}");
  weighted.replace(weighted.find("{column: grade}"), 15, "{column: grade, weight: y}");
  CHECK_THAT(ErrorOf(weighted), Contains("a loss of queries has no weights of rows"));
  const auto names = [&](const std::string& loss, const std::string& metrics) {
    const auto job = job::ParseJob(query + Job(loss, split + metrics), "job.yaml");
    INFO(job.status().message());
    REQUIRE(job.ok());
    std::vector<std::string> found;
    for (const auto& metric : job->evaluate.metrics) found.push_back(metric.name);
    return found;
  };
  CHECK(names("{kind: lambdarank}", "") == std::vector<std::string>{"ndcg@10", "map@10", "mrr"});
  // Any number orders rows, so the others can be held against these.
  CHECK(names("{kind: mse}", "evaluate: {metrics: [rmse, ndcg@5]}\n").size() == 2);
  CHECK_THAT(ErrorOf(path + Job("{kind: mse}", split + "evaluate: {metrics: [ndcg@5]}\n")),
             Contains("'ndcg@5' says nothing about this model"));
}

// The order within a query is planted, under noise that is the same for all of a query's rows: who
// goes by the number itself learns the noise.
TEST_CASE("lambdarank and listnet learn a planted order within queries") {
  std::string csv = "q,x,y,grade\n";
  const auto draw = [](uint64_t i) { return static_cast<double>(Mix64(i) % 2000) / 1000.0 - 1; };
  for (uint64_t q = 0; q < 60; ++q) {
    for (uint64_t i = 0; i < 6; ++i) {
      const double x = draw(q * 100 + i), y = draw(q * 100 + i + 50);
      const double hidden = x * 2 - y;
      const int grade = hidden < -0.7 ? 0 : hidden < 0.7 ? 1 : 2;
      absl::StrAppend(&csv, "q", q, ",", x, ",", y, ",", grade, "\n");
    }
  }
  for (const char* loss : {"{kind: lambdarank}", "{kind: listnet}"}) {
    CAPTURE(loss);
    const Trained t(csv, Job(loss), 60, 300, "query: q");
    REQUIRE(t.evaluated.size() == 2);
    int pairs = 0, right = 0;
    for (size_t a = 0; a < t.predictions.size(); ++a) {
      for (size_t b = a / 6 * 6; b < a / 6 * 6 + 6; ++b) {
        if (t.evaluated[1][a] <= t.evaluated[1][b]) continue;
        ++pairs;
        right += t.predictions[a] > t.predictions[b];
      }
    }
    CHECK(pairs > 400);
    CHECK(right > 0.95 * pairs);
  }
}

}  // namespace
}  // namespace coxswain::model
