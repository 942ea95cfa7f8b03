// Metrics of labels, against values that were worked out by hand, and brute force.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "coordinator/model/metrics.h"

namespace coxswain::model {
namespace {

using Numbers = std::vector<float>;
using Ids = std::vector<int64_t>;

struct Value {
  double value = 0;
  std::string why;
};

Value Measure(const std::string& name, const Numbers& predictions, const Numbers& labels,
              const MeasuredExamples& examples = {}, int64_t classes = 1, int64_t k = 0) {
  const job::MetricKind* kind = job::FindMetricKind(name);
  REQUIRE(kind != nullptr);
  MetricAccumulator m({{kind, k, name}});
  const auto rows = static_cast<int64_t>(labels.size());
  const Shape shape = classes == 1 ? Shape{rows} : Shape{rows, classes};
  REQUIRE(m.AddPredictions(Tensor::FromVector(predictions, shape).value(),
                           Tensor::FromVector(labels), examples)
              .ok());
  const auto why = m.Undefined();
  return {m.Compute().at(name), why.count(name) > 0 ? why.at(name) : ""};
}

TEST_CASE("pr_auc is the average precision; examples of one score come together", "[metrics]") {
  // Down from the highest score: 1 0 1 | precision 1, 2/3 where a positive one comes.
  CHECK(Measure("pr_auc", {0.9f, 0.8f, 0.7f}, {1, 0, 1}).value == Approx(0.5 + 0.5 * 2 / 3));
  CHECK(Measure("pr_auc", {0.9f, 0.1f}, {1, 0}).value == 1);
  // As many as there are, where nothing is ordered.
  CHECK(Measure("pr_auc", {0.5f, 0.5f, 0.5f, 0.5f}, {1, 0, 0, 0}).value == Approx(0.25));
  // A tie of a positive and a negative one, then a positive one alone.
  CHECK(Measure("pr_auc", {0.8f, 0.8f, 0.3f}, {1, 0, 1}).value == Approx(0.5 * 0.5 + 0.5 * 2 / 3));
  // A weight of n counts as n examples.
  CHECK(Measure("pr_auc", {0.9f, 0.8f, 0.7f}, {0, 1, 1}, {.weights = Numbers{2, 1, 0}}).value ==
        Approx(1.0 / 3));
  const Value none = Measure("pr_auc", {0.9f, 0.8f}, {0, 0});
  CHECK(std::isnan(none.value));
  CHECK(none.why == "all labels are 0");
  CHECK(
      std::isnan(Measure("pr_auc", {std::numeric_limits<float>::quiet_NaN(), 0.1f}, {1, 0}).value));
}

TEST_CASE("f1 is the harmonic mean of precision and recall above one half", "[metrics]") {
  // Found 2 of 3, and 1 wrong one: precision 2/3, recall 2/3.
  CHECK(Measure("f1", {0.9f, 0.6f, 0.2f, 0.7f, 0.5f}, {1, 1, 1, 0, 0}).value == Approx(2.0 / 3));
  CHECK(Measure("f1", {0.1f, 0.9f}, {1, 0}).value == 0);
  CHECK(Measure("f1", {0.9f, 0.9f}, {1, 0}, {.weights = Numbers{1, 3}}).value == Approx(2.0 / 5));
  const Value none = Measure("f1", {0.1f}, {0});
  CHECK(std::isnan(none.value));
  CHECK(none.why == "all labels and predictions are 0");
}

TEST_CASE("calibration is what is promised over what comes", "[metrics]") {
  CHECK(Measure("calibration", {0.5f, 0.25f, 0.75f}, {1, 0, 0}).value == Approx(1.5));
  CHECK(Measure("calibration", {0.5f, 1}, {1, 1}, {.weights = Numbers{3, 1}}).value ==
        Approx(2.5 / 4));
  const Value none = Measure("calibration", {0.5f}, {0});
  CHECK(std::isnan(none.value));
  CHECK(none.why == "all labels are 0");
  CHECK_FALSE(job::FindMetricKind("calibration")->compares);
}

TEST_CASE("the calibration error is the mean over ten bins of how far each is off", "[metrics]") {
  // Bins 0 (two examples, 0.05 promised each, 1 came), 5 and 9 (1 belongs to it).
  CHECK(Measure("calibration_error", {0.05f, 0.05f, 0.55f, 1}, {1, 0, 1, 1}).value ==
        Approx((0.9 + 0.45 + 0) / 4));
  CHECK(Measure("calibration_error", {0.05f, 0.55f}, {0, 1}, {.weights = Numbers{3, 1}}).value ==
        Approx((3 * 0.05 + 0.45) / 4));
  // Of several classes the likeliest one: right with 0.8, wrong with 0.6.
  CHECK(Measure("calibration_error", {0.1f, 0.8f, 0.1f, 0.6f, 0.3f, 0.1f}, {1, 2}, {}, 3).value ==
        Approx((0.2 + 0.6) / 2));
  CHECK(std::isnan(
      Measure("calibration_error", {std::numeric_limits<float>::quiet_NaN()}, {1}).value));
}

TEST_CASE("mae is the mean of what predictions are off", "[metrics]") {
  CHECK(Measure("mae", {1, -2, 5}, {2, -2, 2}).value == Approx(4.0 / 3));
  CHECK(Measure("mae", {1, 5}, {2, 2}, {.weights = Numbers{3, 1}}).value == Approx(6.0 / 4));
}

TEST_CASE("accuracy@k counts rows in which fewer than k classes are above the label", "[metrics]") {
  const Numbers p = {0.5f, 0.3f, 0.2f, 0.2f, 0.3f, 0.5f, 0.4f, 0.4f, 0.2f};
  const auto at = [&](int64_t k) { return Measure("accuracy@5", p, {1, 0, 1}, {}, 3, k).value; };
  CHECK(at(1) == Approx(1.0 / 3));  // the tie
  CHECK(at(2) == Approx(2.0 / 3));
  CHECK(at(3) == 1);
}

// By the pairs of each group, a tie counting half; by the groups' sizes.
double BruteForceByGroup(const Numbers& p, const Numbers& y, const Ids& groups) {
  double sum = 0, weights = 0;
  for (const int64_t group : std::set<int64_t>(groups.begin(), groups.end())) {
    double won = 0, pairs = 0, size = 0;
    for (size_t i = 0; i < p.size(); ++i) {
      if (groups[i] != group) continue;
      ++size;
      for (size_t j = 0; j < p.size(); ++j) {
        if (groups[j] != group || y[i] == 0 || y[j] != 0) continue;
        pairs += 1;
        won += p[i] > p[j] ? 1 : p[i] == p[j] ? 0.5 : 0;
      }
    }
    if (pairs == 0) continue;
    sum += size * won / pairs;
    weights += size;
  }
  return sum / weights;
}

TEST_CASE("auc_by_group is the mean of the groups' areas by their weights", "[metrics]") {
  // Group 1: in order; group 2: the wrong order; group 3 has labels of one kind.
  const Numbers p = {0.9f, 0.1f, 0.2f, 0.8f, 0.3f, 0.5f, 0.4f}, y = {1, 0, 1, 0, 0, 1, 1};
  CHECK(Measure("auc_by_group", p, y, {.groups = Ids{1, 1, 2, 2, 2, 3, 3}}).value ==
        Approx((2 * 1 + 3 * 0) / 5.0));
  CHECK(Measure("auc_by_group", {0.9f, 0.1f, 0.2f, 0.8f}, {1, 0, 1, 0},
                {.weights = Numbers{1, 1, 2, 4}, .groups = Ids{1, 1, 2, 2}})
            .value == Approx((2 * 1 + 6 * 0) / 8.0));
  std::mt19937_64 random(3);
  for (int round = 0; round < 50; ++round) {
    Numbers scores, labels;
    Ids groups;
    for (int i = 0; i < 60; ++i) {
      scores.push_back(static_cast<float>(random() % 7) / 7);
      labels.push_back(static_cast<float>(random() % 2));
      groups.push_back(static_cast<int64_t>(random() % 9) - 4);
    }
    CHECK(Measure("auc_by_group", scores, labels, {.groups = groups}).value ==
          Approx(BruteForceByGroup(scores, labels, groups)));
  }
  const Value none = Measure("auc_by_group", {0.9f, 0.1f}, {1, 0}, {.groups = Ids{1, 2}});
  CHECK(std::isnan(none.value));
  CHECK(none.why == "no group has labels of both kinds");
}

TEST_CASE("the log loss of a label between 0 and 1 goes by the number", "[metrics]") {
  const double soft = -(0.3 * std::log(0.4) + 0.7 * std::log(0.6));
  CHECK(Measure("logloss", {0.4f}, {0.3f}).value == Approx(soft));
  CHECK(Measure("logloss_by_group", {0.4f}, {0.3f}, {.groups = Ids{1}}).value == Approx(soft));
}

TEST_CASE("logloss_by_group counts each group once", "[metrics]") {
  const double first = -(std::log(0.8) + std::log(0.5) + std::log(0.9)) / 3;
  CHECK(Measure("logloss_by_group", {0.8f, 0.5f, 0.1f, 0.4f}, {1, 0, 0, 1},
                {.groups = Ids{5, 5, 5, 6}})
            .value == Approx((first - std::log(0.4)) / 2));
  CHECK(Measure("logloss_by_group", {0.8f, 0.5f, 0.4f}, {1, 1, 1},
                {.weights = Numbers{1, 3, 0}, .groups = Ids{5, 5, 6}})
            .value == Approx(-(std::log(0.8) + 3 * std::log(0.5)) / 4));
  CHECK(Measure("logloss_by_group", {0.7f, 0.2f, 0.1f, 0.1f, 0.8f, 0.1f}, {0, 2},
                {.groups = Ids{1, 2}}, 3)
            .value == Approx(-(std::log(0.7) + std::log(0.1)) / 2));
}

}  // namespace
}  // namespace coxswain::model
