#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/model/metrics.h"
#include "coordinator/model/metrics/auc.h"

namespace coxswain::model {
namespace {

using Scored = std::vector<std::pair<float, float>>;

// The chance that a positive example scores above a negative one, a tie counting half.
double BruteForce(const Scored& scored) {
  double won = 0, pairs = 0;
  for (const auto& [p, positive] : scored) {
    if (positive <= 0.5f) continue;
    for (const auto& [n, label] : scored) {
      if (label > 0.5f) continue;
      pairs += 1;
      won += p > n ? 1 : (p == n ? 0.5 : 0);
    }
  }
  return pairs == 0 ? std::nan("") : won / pairs;
}

job::MetricSpec Spec(const std::string& name, int64_t k = 0) {
  const job::MetricKind* kind = job::FindMetricKind(k > 0 ? "hit_rate@10" : name);
  REQUIRE(kind != nullptr);
  return {kind, k, name};
}

TEST_CASE("the area under the curve is the share of pairs in the right order", "[metrics]") {
  CHECK(AreaUnderCurve({{0.1f, 0.0f}, {0.9f, 1.0f}}) == 1);
  CHECK(AreaUnderCurve({{0.9f, 0.0f}, {0.1f, 1.0f}}) == 0);
  CHECK(AreaUnderCurve({{0.5f, 0.0f}, {0.5f, 1.0f}}) == 0.5);
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    // Few different scores: many ties.
    const uint64_t scores = 1 + random() % (round % 2 == 0 ? 5 : 1000), n = 1 + random() % 60;
    Scored scored;
    for (uint64_t i = 0; i < n; ++i) {
      scored.emplace_back(static_cast<float>(random() % scores) / 7.0f - 3.0f,
                          static_cast<float>(random() % 2));
    }
    const double area = AreaUnderCurve(scored), wanted = BruteForce(scored);
    if (std::isnan(wanted)) {
      CHECK(std::isnan(area));
    } else {
      CHECK(area == Approx(wanted).margin(1e-12));
    }
  }
}

TEST_CASE("the metrics of a slice are those of its examples alone", "[metrics]") {
  const std::vector<job::MetricSpec> specs = {Spec("auc"), Spec("logloss")};
  Slices slices(specs, {2, 5});
  MetricAccumulator all(specs, nullptr, &slices);
  std::mt19937_64 random(3);
  std::map<std::pair<size_t, int64_t>, std::vector<size_t>> wanted;  // by feature and value
  std::vector<float> predictions, labels, weights;
  constexpr size_t kBatch = 16;
  for (int batch = 0; batch < 20; ++batch) {
    std::vector<float> prediction, label, weight;
    std::vector<int64_t> first, second;
    for (size_t i = 0; i < kBatch; ++i) {
      prediction.push_back(static_cast<float>(random() % 97 + 1) / 98);
      label.push_back(static_cast<float>(random() % 2));
      weight.push_back(static_cast<float>(random() % 3));   // 0, too
      first.push_back(static_cast<int64_t>(random() % 4));  // 2 and 3 have no names
      second.push_back(static_cast<int64_t>(random() % 5));
      wanted[{0, std::min<int64_t>(first[i], 2)}].push_back(predictions.size());
      wanted[{1, second[i]}].push_back(predictions.size());
      predictions.push_back(prediction[i]);
      labels.push_back(label[i]);
      weights.push_back(weight[i]);
    }
    MeasuredExamples examples;
    examples.weights = weight;
    examples.slices = {first, second};
    REQUIRE(all.AddPredictions(Tensor::FromVector(prediction), Tensor::FromVector(label), examples)
                .ok());
  }
  const std::vector<Slices::Slice> found = slices.Compute();
  REQUIRE(found.size() == wanted.size());
  for (const Slices::Slice& slice : found) {
    const int64_t end = slice.feature == 0 ? 2 : 5;
    CAPTURE(slice.feature, slice.id.value_or(end));
    const std::vector<size_t>& rows = wanted.at({slice.feature, slice.id.value_or(end)});
    CHECK(slice.examples == std::ssize(rows));
    MetricAccumulator alone(specs);
    Measured measured;
    std::vector<float> p, l, w;
    for (const size_t row : rows) {
      p.push_back(predictions[row]);
      l.push_back(labels[row]);
      w.push_back(weights[row]);
    }
    measured.prediction = p;
    measured.label = l;
    measured.weight = w;
    alone.Add(measured, std::ssize(rows));
    for (const auto& [name, value] : alone.Compute()) {
      CHECK(slice.metrics.at(name) == Approx(value).margin(1e-12));
    }
  }
}

TEST_CASE("values behind the first thousand of a vocabulary are one slice", "[metrics]") {
  const std::vector<job::MetricSpec> specs = {Spec("hit_rate@1", 1)};
  Slices slices(specs, {5000});
  MetricAccumulator all(specs, nullptr, &slices);
  const std::vector<int64_t> ids = {999, 1000, 4999, 5003}, ranks = {0, 0, 1, 0};
  MeasuredExamples examples;
  examples.slices = {ids};
  all.AddRanks(ranks, examples);
  const std::vector<Slices::Slice> found = slices.Compute();
  REQUIRE(found.size() == 2);
  CHECK(found[0].id == 999);
  CHECK(found[0].metrics.at("hit_rate@1") == 1);
  CHECK_FALSE(found[1].id);
  CHECK(found[1].examples == 3);
  CHECK(found[1].metrics.at("hit_rate@1") == Approx(2.0 / 3));
}

TEST_CASE("areas go by scores, which tell apart what rounds to a probability of 1", "[metrics]") {
  const std::vector<job::MetricSpec> specs = {Spec("auc"), Spec("pr_auc"), Spec("auc_by_group"),
                                              Spec("logloss")};
  Bootstrap bootstrap(specs, 20, 1);
  Slices slices(specs, {1});
  MetricAccumulator all(specs, &bootstrap, &slices);
  const std::vector<float> scores = {30, 20, 18, 17.5f, 17.25f}, labels = {1, 0, 1, 0, 0};
  const std::vector<int64_t> group(5, 0), slice(5, 0);
  MeasuredExamples examples;
  examples.scores = scores;
  examples.groups = group;
  examples.slices = {slice};
  const Tensor ones = Tensor::FromVector(std::vector<float>(5, 1)), y = Tensor::FromVector(labels);
  REQUIRE(all.AddPredictions(ones, y, examples).ok());
  const auto check = [](const std::map<std::string, double>& values) {
    CHECK(values.at("auc") == Approx(5.0 / 6));
    CHECK(values.at("auc_by_group") == Approx(5.0 / 6));
    CHECK(values.at("pr_auc") == Approx((1 + 2.0 / 3) / 2));
  };
  check(all.Compute());
  REQUIRE(slices.Compute().size() == 1);
  check(slices.Compute()[0].metrics);
  const auto intervals = bootstrap.Intervals(env::NewComputePool(1).get());
  CHECK(intervals.at("pr_auc").high > 0.6);  // of ties it would be 0.4, and of few 1
  examples.scores = absl::MakeSpan(scores).first(4);
  CHECK_FALSE(all.AddPredictions(ones, y, examples).ok());
}

TEST_CASE("labels that are all the same have no area under the curve, and are told", "[metrics]") {
  CHECK(std::isnan(AreaUnderCurve({})));
  CHECK(std::isnan(AreaUnderCurve({{0.3f, 1.0f}})));
  CHECK(std::isnan(AreaUnderCurve({{0.3f, 0.0f}, {0.4f, 0.0f}})));
  const auto undefined = [](std::vector<float> labels) {
    MetricAccumulator metrics({Spec("auc"), Spec("logloss")});
    const std::vector<float> scores(labels.size(), 0.4f);
    REQUIRE(metrics.AddPredictions(Tensor::FromVector(scores), Tensor::FromVector(labels)).ok());
    return metrics.Undefined();
  };
  using Reasons = std::map<std::string, std::string>;
  CHECK(undefined({0, 0, 0}) == Reasons{{"auc", "all labels are 0"}});
  CHECK(undefined({1, 1}) == Reasons{{"auc", "all labels are 1"}});
  CHECK(undefined({1, 0}).empty());
  CHECK(MetricAccumulator({Spec("auc")}).Undefined().empty());
}

TEST_CASE("scores of a model that has diverged have no area under the curve", "[metrics]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(std::isnan(AreaUnderCurve({{nan, 1.0f}, {0.2f, 0.0f}, {nan, 0.0f}})));
  CHECK(AreaUnderCurve({{inf, 1.0f}, {0.2f, 0.0f}, {-inf, 0.0f}}) == 1);
}

// A NaN is no chance of at most 1/2, so it is not a right prediction of label 0 either.
TEST_CASE(
    "a prediction that is no number leaves all metrics of its task undefined, with the reason",
    "[metrics]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  MetricAccumulator m({Spec("accuracy"), Spec("logloss"), Spec("rmse")});
  REQUIRE(m.AddPredictions(Tensor::FromVector<float>({0.2f, nan, nan}),
                           Tensor::FromVector<float>({0, 0, 1}))
              .ok());
  REQUIRE(m.AddPredictions(Tensor::FromVector<float>({0.7f}), Tensor::FromVector<float>({1})).ok());
  for (const auto& [name, value] : m.Compute()) {
    INFO(name);
    CHECK(std::isnan(value));
    CHECK(m.Undefined().at(name) ==
          "the model's prediction of 2 of 4 examples is no finite number");
  }
  CHECK(m.Undefined().size() == 3);
}

TEST_CASE("of classes, one score that is no number is enough for that", "[metrics]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  MetricAccumulator m({Spec("accuracy")});
  const Tensor scores = Tensor::FromVector<float>({0.1f, 0.9f, nan, 0.5f}, Shape{2, 2}).value();
  REQUIRE(m.AddPredictions(scores, Tensor::FromVector<float>({1, 1})).ok());
  CHECK(m.Undefined().at("accuracy") ==
        "the model's prediction of 1 of 2 examples is no finite number");
}

TEST_CASE("metrics of single predictions match their formulas over all batches", "[metrics]") {
  MetricAccumulator m({Spec("rmse"), Spec("accuracy"), Spec("logloss"), Spec("auc")});
  CHECK(m.Compute().empty());  // of no examples
  std::mt19937_64 random(5);
  std::uniform_real_distribution<float> chance(0.01f, 0.99f);
  Scored scored;
  double squares = 0, log_loss = 0, right = 0;
  for (int64_t batch : {1, 7, 32}) {
    std::vector<float> p, y;
    for (int64_t i = 0; i < batch; ++i) {
      p.push_back(chance(random));
      y.push_back(static_cast<float>(random() % 2));
      scored.emplace_back(p.back(), y.back());
      squares += std::pow(double{p.back()} - y.back(), 2);
      log_loss -= y.back() > 0 ? std::log(double{p.back()}) : std::log(1 - double{p.back()});
      right += (p.back() > 0.5f) == (y.back() > 0.5f);
    }
    // A column of one class is the same as none.
    const Shape shape = batch == 7 ? Shape{batch, 1} : Shape{batch};
    REQUIRE(m.AddPredictions(Tensor::FromVector(p, shape).value(), Tensor::FromVector(y)).ok());
  }
  CHECK(m.examples() == 40);
  const auto values = m.Compute();
  REQUIRE(values.size() == 4);
  CHECK(values.at("rmse") == Approx(std::sqrt(squares / 40)));
  CHECK(values.at("accuracy") == Approx(right / 40));
  CHECK(values.at("logloss") == Approx(log_loss / 40));
  CHECK(values.at("auc") == Approx(BruteForce(scored)));
}

TEST_CASE("certain predictions that are wrong have a large and finite log loss", "[metrics]") {
  MetricAccumulator m({Spec("logloss")});
  REQUIRE(
      m.AddPredictions(Tensor::FromVector<float>({0, 1}), Tensor::FromVector<float>({1, 0})).ok());
  CHECK(m.Compute().at("logloss") == Approx(-std::log(1e-7)).epsilon(1e-6));
}

TEST_CASE("accuracy of several classes is the share of rows whose largest score is the label",
          "[metrics]") {
  MetricAccumulator m({Spec("accuracy"), Spec("logloss")});
  const Tensor p =
      Tensor::FromVector<float>(
          {0.7f, 0.2f, 0.1f, 0.1f, 0.8f, 0.1f, 0.3f, 0.3f, 0.4f, 0.5f, 0.25f, 0.25f}, Shape{4, 3})
          .value();
  REQUIRE(m.AddPredictions(p, Tensor::FromVector<float>({0, 1, 0, 2})).ok());
  CHECK(m.Compute().at("accuracy") == 0.5);
  CHECK(m.Compute().at("logloss") ==
        Approx(-(std::log(0.7) + std::log(0.8) + std::log(0.3) + std::log(0.25)) / 4));
}

TEST_CASE("the hit rate at k is the share of ranks below k", "[metrics]") {
  MetricAccumulator m({Spec("hit_rate@1", 1), Spec("hit_rate@10", 10)});
  const std::vector<int64_t> first = {0, 9, 10}, second = {1, 100};
  m.AddRanks(first);
  m.AddRanks(second);
  CHECK(m.examples() == 5);
  CHECK(m.Compute().at("hit_rate@1") == Approx(1.0 / 5));
  CHECK(m.Compute().at("hit_rate@10") == Approx(3.0 / 5));
}

TEST_CASE("metrics count an example with a weight of n as n examples", "[metrics]") {
  const std::vector<job::MetricSpec> specs = {Spec("rmse"), Spec("accuracy"), Spec("logloss"),
                                              Spec("auc")};
  MetricAccumulator weighted(specs), repeated(specs);
  std::mt19937_64 random(9);
  std::vector<float> p, y, w, all_p, all_y;
  std::vector<int64_t> ranks, all_ranks;
  for (int i = 0; i < 60; ++i) {
    p.push_back(static_cast<float>(1 + random() % 9) / 10);
    y.push_back(static_cast<float>(random() % 2));
    w.push_back(static_cast<float>(random() % 4));
    ranks.push_back(static_cast<int64_t>(random() % 2));
    for (int n = 0; n < static_cast<int>(w.back()); ++n) {
      all_p.push_back(p.back());
      all_y.push_back(y.back());
      all_ranks.push_back(ranks.back());
    }
  }
  REQUIRE(
      weighted.AddPredictions(Tensor::FromVector(p), Tensor::FromVector(y), {.weights = w}).ok());
  REQUIRE(repeated.AddPredictions(Tensor::FromVector(all_p), Tensor::FromVector(all_y)).ok());
  CHECK(weighted.examples() == 60);
  const auto values = weighted.Compute(), wanted = repeated.Compute();
  for (const auto& [name, value] : wanted) CHECK(values.at(name) == Approx(value));
  MetricAccumulator weighted_ranks({Spec("hit_rate@1", 1)}),
      repeated_ranks({Spec("hit_rate@1", 1)});
  weighted_ranks.AddRanks(ranks, {.weights = w});
  repeated_ranks.AddRanks(all_ranks);
  CHECK(weighted_ranks.Compute().at("hit_rate@1") ==
        Approx(repeated_ranks.Compute().at("hit_rate@1")));
  // One label of a single weight above 0.
  MetricAccumulator alone({Spec("auc"), Spec("rmse")});
  REQUIRE(alone
              .AddPredictions(Tensor::FromVector<float>({0.1f, 0.9f}),
                              Tensor::FromVector<float>({0, 1}),
                              {.weights = std::vector<float>{0, 2}})
              .ok());
  CHECK(alone.Undefined().at("auc") == "all labels are 1");
  CHECK(alone.Compute().at("rmse") == Approx(0.1));
  MetricAccumulator none({Spec("rmse")});
  REQUIRE(none.AddPredictions(Tensor::FromVector<float>({0.1f}), Tensor::FromVector<float>({0}),
                              {.weights = std::vector<float>{0}})
              .ok());
  CHECK(std::isnan(none.Compute().at("rmse")));
  CHECK(none.Undefined().at("rmse") == "all weights are 0");
  CHECK_FALSE(none.AddPredictions(Tensor::FromVector(p), Tensor::FromVector(y),
                                  {.weights = std::vector<float>{1}})
                  .ok());
}

TEST_CASE("an example of weight 0 has no part in any metric, whatever is said of it", "[metrics]") {
  std::vector<job::MetricSpec> specs;
  for (const char* name :
       {"auc", "logloss", "accuracy", "pr_auc", "f1", "calibration", "calibration_error", "rmse",
        "mae", "auc_by_group", "logloss_by_group", "mrr"}) {
    specs.push_back(Spec(name));
  }
  for (const char* name : {"ndcg@10", "map@10", "precision@10", "recall@10"}) {
    specs.push_back({job::FindMetricKind(name), 2, name});
  }
  const std::vector<float> p = {0.2f, 0.7f, 0.4f, 0.9f}, y = {1, 0, 0, 1}, w = {1, 2, 3, 1};
  const std::vector<int64_t> groups = {1, 1, 2, 2};
  MetricAccumulator without(specs), with(specs);
  REQUIRE(without
              .AddPredictions(Tensor::FromVector(p), Tensor::FromVector(y),
                              {.weights = w, .groups = groups})
              .ok());
  // The same rows, and beside them others that any metric would show.
  std::vector<float> more_p = p, more_y = y, more_w = w;
  std::vector<int64_t> more_groups = groups;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::pair<float, float> others[] = {{nan, 1}, {0.99f, 1e30f}, {0.1f, 1}, {0.8f, -1}};
  for (const auto& [prediction, label] : others) {
    more_p.insert(more_p.begin() + 2, prediction);
    more_y.insert(more_y.begin() + 2, label);
    more_w.insert(more_w.begin() + 2, 0);
    more_groups.insert(more_groups.begin() + 2, 1);
  }
  REQUIRE(with.AddPredictions(Tensor::FromVector(more_p), Tensor::FromVector(more_y),
                              {.weights = more_w, .groups = more_groups})
              .ok());
  CHECK(with.Compute() == without.Compute());
  CHECK(with.Undefined().empty());
  CHECK(with.examples() == 8);  // that were evaluated

  std::vector<job::MetricSpec> of_ranks = {Spec("hit_rate@2", 2)};
  of_ranks.insert(of_ranks.end(), specs.end() - 5, specs.end());
  MetricAccumulator lists(of_ranks), more_lists(of_ranks);
  const std::vector<int64_t> ranks = {3, 0, 1, 5}, more_ranks = {3, 0, 0, 0, 9, 9, 1, 5};
  lists.AddRanks(ranks, {.weights = w, .groups = groups});
  more_lists.AddRanks(more_ranks, {.weights = more_w, .groups = more_groups});
  CHECK(more_lists.Compute() == lists.Compute());
}

TEST_CASE("predictions and labels that do not meet are an error", "[metrics]") {
  MetricAccumulator m({Spec("rmse")});
  const Tensor two = Tensor::FromVector<float>({1, 2}),
               three = Tensor::FromVector<float>({1, 2, 3});
  CHECK(m.AddPredictions(two, three).code() == absl::StatusCode::kInternal);
  CHECK_FALSE(m.AddPredictions(Tensor::Scalar(1.0f), two).ok());
  CHECK_FALSE(m.AddPredictions(Tensor::FromVector<double>({1, 2}), two).ok());
  CHECK_FALSE(m.AddPredictions(two, two.Reshaped(Shape{2, 1})).ok());
  CHECK_FALSE(m.AddPredictions(Tensor(), Tensor()).ok());
  CHECK(m.examples() == 0);
}

}  // namespace
}  // namespace coxswain::model
