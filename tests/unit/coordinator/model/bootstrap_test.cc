// Intervals by the bootstrap: as a plain computation has them, and about what theory says.
#include "coordinator/model/bootstrap.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/job/metric_kind.h"

namespace coxswain::model {
namespace {

std::vector<job::MetricSpec> Metrics(const std::vector<std::pair<std::string, int64_t>>& names) {
  std::vector<job::MetricSpec> metrics;
  for (const auto& [name, k] : names) metrics.push_back({job::FindMetricKind(name), k, name});
  return metrics;
}

// splitmix64, as docs/metrics.md has it.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

int64_t PlainDraw(uint64_t seed, uint64_t replicate, uint64_t unit) {
  const double u =
      static_cast<double>(Mix(Mix(Mix(seed) + replicate) + unit) >> 11) / 9007199254740992.0;
  double sum = 0, factorial = 1;
  for (int64_t k = 0;; ++k) {
    if (k > 0) factorial *= static_cast<double>(k);
    sum += std::exp(-1.0) / factorial;
    if (u < sum || k == 20) return k;
  }
}

std::pair<double, double> PlainInterval(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double q) {
    const double place = q * static_cast<double>(values.size() - 1);
    const auto i = static_cast<size_t>(std::floor(place));
    if (i + 1 == values.size()) return values[i];
    return values[i] + (place - std::floor(place)) * (values[i + 1] - values[i]);
  };
  return {at(0.025), at(0.975)};
}

TEST_CASE("bootstrap: how often a unit comes is Poisson's with mean 1", "[bootstrap]") {
  constexpr int kDraws = 200000;
  std::map<int64_t, int> counts;
  for (int i = 0; i < kDraws; ++i) ++counts[PoissonDraw(7, i % 400, i / 400)];
  double chance = std::exp(-1.0);
  for (int64_t k = 0; k < 5; ++k) {
    if (k > 0) chance /= static_cast<double>(k);
    CHECK(counts[k] / static_cast<double>(kDraws) == Approx(chance).margin(0.006));
  }
  for (uint64_t i = 0; i < 1000; ++i) {
    CHECK(PoissonDraw(i * i, static_cast<int64_t>(i), static_cast<int64_t>(3 * i)) ==
          PlainDraw(i * i, i, 3 * i));
  }
}

TEST_CASE("bootstrap: the interval of rows is that of a plain computation", "[bootstrap]") {
  constexpr int64_t kRows = 60, kReplicates = 200;
  constexpr uint64_t kSeed = 11;
  std::vector<float> prediction, label, weight;
  for (int i = 0; i < kRows; ++i) {
    prediction.push_back(static_cast<float>((i * 37) % 61) / 61);
    label.push_back(static_cast<float>((i * 17) % 61) / 61);
    weight.push_back(static_cast<float>(i % 4));
    // Such a row has a number, and no part in the metrics.
    if (weight.back() == 0) prediction.back() = std::nanf("");
  }
  Bootstrap bootstrap(Metrics({{"mae", 0}, {"rmse", 0}}), kReplicates, kSeed);
  for (int begin = 0; begin < kRows; begin += 25) {  // of batches, the last one smaller
    const auto n = static_cast<size_t>(std::min<int64_t>(25, kRows - begin));
    const auto at = static_cast<size_t>(begin);
    Measured m;
    m.prediction = absl::MakeConstSpan(prediction).subspan(at, n);
    m.label = absl::MakeConstSpan(label).subspan(at, n);
    m.weight = absl::MakeConstSpan(weight).subspan(at, n);
    bootstrap.Add(m);
  }
  const auto pool = env::NewComputePool(3);
  const auto found = bootstrap.Intervals(pool.get());
  std::vector<double> mae, rmse;
  for (uint64_t r = 0; r < kReplicates; ++r) {
    double absolute = 0, square = 0, total = 0;
    for (size_t i = 0; i < kRows; ++i) {
      if (weight[i] == 0) continue;
      const double count =
          static_cast<double>(PlainDraw(kSeed, r, i)) * static_cast<double>(weight[i]);
      const double off = static_cast<double>(prediction[i]) - static_cast<double>(label[i]);
      absolute += count * std::abs(off);
      square += count * off * off;
      total += count;
    }
    mae.push_back(absolute / total);
    rmse.push_back(std::sqrt(square / total));
  }
  for (const auto& [name, values] :
       {std::pair<std::string, std::vector<double>>{"mae", mae}, {"rmse", rmse}}) {
    CAPTURE(name);
    const auto [low, high] = PlainInterval(values);
    CHECK(found.at(name).low == Approx(low).epsilon(1e-6));
    CHECK(found.at(name).high == Approx(high).epsilon(1e-6));
    CHECK(found.at(name).low < found.at(name).high);
  }
}

TEST_CASE("bootstrap: groups come as a whole, and a group that comes twice is two", "[bootstrap]") {
  constexpr int64_t kGroups = 30, kReplicates = 150;
  constexpr uint64_t kSeed = 5;
  // A group's rows are together in no batch.
  std::vector<float> prediction, label;
  std::vector<int64_t> group;
  for (int i = 0; i < 3 * kGroups; ++i) {
    group.push_back(1000 - 7 * (i % kGroups));
    prediction.push_back(0.05f + static_cast<float>((i * 29) % 90) / 100);
    label.push_back(static_cast<float>((i / 2) % 2));
  }
  Bootstrap bootstrap(Metrics({{"logloss_by_group", 0}}), kReplicates, kSeed);
  Measured m;
  m.prediction = prediction;
  m.label = label;
  m.group = group;
  bootstrap.Add(m);
  const auto pool = env::NewInlinePool();
  const Interval found = bootstrap.Intervals(pool.get()).at("logloss_by_group");
  std::map<int64_t, std::pair<double, double>> loss;  // by group: sum and count
  for (size_t i = 0; i < group.size(); ++i) {
    const double p = static_cast<double>(prediction[i]);
    loss[group[i]].first -= std::log(label[i] > 0.5f ? p : 1 - p);
    loss[group[i]].second += 1;
  }
  std::vector<double> values;
  for (uint64_t r = 0; r < kReplicates; ++r) {
    double sum = 0, groups = 0;
    for (const auto& [number, of] : loss) {
      const auto count = static_cast<double>(PlainDraw(kSeed, r, static_cast<uint64_t>(number)));
      sum += count * of.first / of.second;
      groups += count;
    }
    values.push_back(sum / groups);
  }
  const auto [low, high] = PlainInterval(values);
  CHECK(found.low == Approx(low).epsilon(1e-5));
  CHECK(found.high == Approx(high).epsilon(1e-5));
}

TEST_CASE("bootstrap: the interval of a share is about what its standard error says",
          "[bootstrap]") {
  constexpr int kRows = 1000;
  std::vector<float> prediction, label(kRows, 1);
  std::vector<int64_t> ranks;
  for (int i = 0; i < kRows; ++i) {
    prediction.push_back(i % 5 == 0 ? 0.9f : 0.1f);
    ranks.push_back(i % 5 == 0 ? 0 : 50);
  }
  // 0.2 plus and minus 1.96 times the root of 0.2 * 0.8 / 1000.
  const double off = 1.96 * std::sqrt(0.2 * 0.8 / kRows);
  Measured of_labels, of_ranks;
  of_labels.prediction = prediction;
  of_labels.label = label;
  of_ranks.ranks = ranks;
  for (const auto& [name, measured] :
       {std::pair<std::string, Measured>{"accuracy", of_labels}, {"hit_rate@10", of_ranks}}) {
    CAPTURE(name);
    Bootstrap bootstrap(Metrics({{name, 10}}), 2000, 3);
    bootstrap.Add(measured);
    const auto pool = env::NewComputePool(2);
    const Interval found = bootstrap.Intervals(pool.get()).at(name);
    CHECK(found.low == Approx(0.2 - off).margin(0.004));
    CHECK(found.high == Approx(0.2 + off).margin(0.004));
  }
}

TEST_CASE("bootstrap: tasks draw the same examples, each for its own metrics", "[bootstrap]") {
  const std::vector<float> prediction = {0.1f, 0.9f, 0.8f, 0.3f, 0.6f}, label = {0, 1, 0, 0, 1},
                           other = {1, 1, 1, 1, 0};
  std::vector<job::MetricSpec> both = Metrics({{"accuracy", 0}, {"accuracy", 0}});
  both[0].name = "a/accuracy";
  both[1].name = "b/accuracy";
  both[1].task = 1;
  Bootstrap together(both, 100, 9), a(Metrics({{"accuracy", 0}}), 100, 9),
      b(Metrics({{"accuracy", 0}}), 100, 9);
  for (size_t at : {size_t{0}, size_t{3}}) {  // batch by batch, of each task
    Measured m;
    m.prediction = absl::MakeConstSpan(prediction).subspan(at, 3);
    m.label = absl::MakeConstSpan(label).subspan(at, 3);
    together.Add(m);
    a.Add(m);
    m.label = absl::MakeConstSpan(other).subspan(at, 3);
    b.Add(m);
    m.task = 1;
    together.Add(m);
  }
  const auto pool = env::NewInlinePool();
  const auto found = together.Intervals(pool.get());
  const Interval alone_a = a.Intervals(pool.get()).at("accuracy"),
                 alone_b = b.Intervals(pool.get()).at("accuracy");
  CHECK(found.at("a/accuracy").low == alone_a.low);
  CHECK(found.at("a/accuracy").high == alone_a.high);
  CHECK(found.at("b/accuracy").low == alone_b.low);
  CHECK(found.at("b/accuracy").high == alone_b.high);
}

TEST_CASE("bootstrap: replicates without a value are left out, and many of them leave no interval",
          "[bootstrap]") {
  const double nan = std::nan("");
  Interval interval;
  CHECK(IntervalOf({1, 1, nan}, &interval));
  CHECK(interval.low == 1);
  CHECK_FALSE(IntervalOf({1, 2, nan, nan, nan}, &interval));
  CHECK_FALSE(IntervalOf({1}, &interval));
  CHECK_FALSE(IntervalOf({}, &interval));
  CHECK_FALSE(IntervalOf({nan, std::numeric_limits<double>::infinity()}, &interval));
  // All labels are 1: there is no AUC in any.
  const std::vector<float> prediction = {0.1f, 0.2f, 0.7f}, label = {1, 1, 1};
  Bootstrap bootstrap(Metrics({{"auc", 0}, {"accuracy", 0}}), 50, 1);
  Measured m;
  m.prediction = prediction;
  m.label = label;
  bootstrap.Add(m);
  const auto pool = env::NewInlinePool();
  const auto found = bootstrap.Intervals(pool.get());
  CHECK(found.count("auc") == 0);
  CHECK(found.count("accuracy") == 1);
  CHECK(Bootstrap(Metrics({{"auc", 0}}), 50, 1).Intervals(pool.get()).empty());
}

}  // namespace
}  // namespace coxswain::model
