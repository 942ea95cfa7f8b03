#include "coordinator/model/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "coordinator/model/job_metric.h"
#include "runtime/base/stable_hash.h"

namespace coxswain::model {
namespace {

constexpr double kLow = 0.025, kHigh = 0.975;
constexpr int64_t kMostCopies = 20;  // the probability of more is below 1e-19

template <typename T>
std::vector<T> Copied(absl::Span<const T> values) {
  return {values.begin(), values.end()};
}

// Between the values around it, by its distance from them.
double Quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double part = at - static_cast<double>(below);
  return sorted[below] + part * (sorted[above] - sorted[below]);
}

}  // namespace

int64_t PoissonDraw(uint64_t seed, int64_t replicate, int64_t unit) {
  const uint64_t of_replicate = Mix64(Mix64(seed) + static_cast<uint64_t>(replicate));
  const uint64_t hash = Mix64(of_replicate + static_cast<uint64_t>(unit));
  const double u = std::ldexp(static_cast<double>(hash >> 11), -53);
  double chance = std::exp(-1.0), below = chance;
  int64_t k = 0;
  while (u >= below && k < kMostCopies) {
    ++k;
    chance /= static_cast<double>(k);
    below += chance;
  }
  return k;
}

bool IntervalOf(std::vector<double> values, Interval* interval) {
  const size_t all = values.size();
  values.erase(
      std::remove_if(values.begin(), values.end(), [](double v) { return !std::isfinite(v); }),
      values.end());
  if (values.size() < 2 || 2 * values.size() < all) return false;
  std::sort(values.begin(), values.end());
  *interval = {Quantile(values, kLow), Quantile(values, kHigh)};
  return true;
}

Bootstrap::Bootstrap(const std::vector<job::MetricSpec>& metrics, int64_t replicates, uint64_t seed)
    : metrics_([&metrics] {
        std::vector<job::MetricSpec> of_examples;
        for (const job::MetricSpec& metric : metrics) {
          if (metric.kind->make != nullptr) of_examples.push_back(metric);
        }
        return of_examples;
      }()),
      replicates_(replicates),
      seed_(seed) {}

void Bootstrap::Add(const Measured& m) {
  if (m.task >= examples_.size()) examples_.resize(m.task + 1, 0);
  Batch batch;
  batch.first = examples_[m.task];
  batch.examples.Restart(m);
  batch.examples.prediction = Copied(m.prediction);
  batch.examples.label = Copied(m.label);
  batch.examples.score = Copied(m.score);
  batch.examples.weight = Copied(m.weight);
  batch.examples.ranks = Copied(m.ranks);
  batch.examples.group = Copied(m.group);
  batch.examples.unseen = Copied(m.unseen);
  examples_[m.task] += static_cast<int64_t>(batch.examples.size());
  batches_.push_back(std::move(batch));
}

void Bootstrap::Take(const Measured& from, size_t i, int64_t copy, MeasuredCopy* to) {
  to->Take(from, i);
  if (from.group.empty() || copy == 0) return;
  // A copy is another group, whose number no other one has but by a chance of 2^-64.
  const auto group = static_cast<uint64_t>(from.group[i]);
  to->group.back() = static_cast<int64_t>(Mix64(Mix64(group) + static_cast<uint64_t>(copy)));
}

void Bootstrap::Fill(const Batch& batch, int64_t replicate, MeasuredCopy* sample) const {
  const Measured all = batch.examples.View();
  sample->Restart(all);
  for (size_t i = 0; i < batch.examples.size(); ++i) {
    if (all.weight_of(i) == 0) continue;
    const int64_t unit = all.group.empty() ? batch.first + static_cast<int64_t>(i) : all.group[i];
    const int64_t copies = PoissonDraw(seed_, replicate, unit);
    for (int64_t copy = 0; copy < copies; ++copy) Take(all, i, copy, sample);
  }
}

std::vector<double> Bootstrap::Replicate(int64_t replicate) const {
  std::vector<JobMetric> metrics(metrics_.begin(), metrics_.end());
  std::vector<double> totals(examples_.size(), 0);
  MeasuredCopy sample;
  for (const Batch& batch : batches_) {
    Fill(batch, replicate, &sample);
    if (sample.size() == 0) continue;
    const Measured measured = sample.View();
    for (JobMetric& metric : metrics) metric.Add(measured);
    double& total = totals[measured.task];
    for (const float weight : sample.weight) total += static_cast<double>(weight);
    if (sample.weight.empty()) total += static_cast<double>(sample.size());
  }
  std::vector<double> values;
  for (const JobMetric& metric : metrics) values.push_back(metric.Value(totals));
  return values;
}

std::map<std::string, Interval> Bootstrap::Intervals(env::ComputePool* pool) const {
  std::vector<std::vector<double>> replicates(static_cast<size_t>(replicates_));
  if (batches_.empty()) return {};
  pool->ParallelFor(replicates_, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) replicates[static_cast<size_t>(r)] = Replicate(r);
  });
  std::map<std::string, Interval> intervals;
  for (size_t m = 0; m < metrics_.size(); ++m) {
    std::vector<double> values;
    for (const std::vector<double>& of : replicates) values.push_back(of[m]);
    Interval interval;
    if (IntervalOf(std::move(values), &interval)) intervals[metrics_[m].name] = interval;
  }
  return intervals;
}

}  // namespace coxswain::model
