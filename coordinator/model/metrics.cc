#include "coordinator/model/metrics.h"

#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "coordinator/model/measured_copy.h"

namespace coxswain::model {
namespace {

int64_t CountNotFinite(const Measured& measured) {
  const auto& numbers = measured.prediction;
  int64_t count = 0;
  for (size_t at = 0; at < numbers.size(); at += static_cast<size_t>(measured.classes)) {
    const auto of_example = numbers.subspan(at, static_cast<size_t>(measured.classes));
    count += !std::all_of(of_example.begin(), of_example.end(),
                          [](float number) { return std::isfinite(number); });
  }
  return count;
}

// Examples of weight 0 have no part in a metric, whatever their labels and predictions are.
MeasuredCopy Weighted(const Measured& measured) {
  MeasuredCopy some;
  some.Restart(measured);
  for (size_t i = 0; i < measured.weight.size(); ++i) {
    if (measured.weight[i] > 0) some.Take(measured, i);
  }
  return some;
}

}  // namespace

MetricAccumulator::MetricAccumulator(const std::vector<job::MetricSpec>& metrics,
                                     Bootstrap* bootstrap, Slices* slices)
    : bootstrap_(bootstrap), slices_(slices) {
  for (const job::MetricSpec& metric : metrics) {
    if (metric.kind->make == nullptr) continue;  // not of examples: word_eval.h
    metrics_.emplace_back(metric);
  }
}

void MetricAccumulator::Add(const Measured& measured, int64_t examples) {
  const size_t task = measured.task;
  MeasuredCopy weighted;
  Measured counted = measured;
  if (absl::c_linear_search(measured.weight, 0.0f)) {
    weighted = Weighted(measured);
    counted = weighted.View();
  }
  for (JobMetric& metric : metrics_) metric.Add(counted);
  if (bootstrap_ != nullptr) bootstrap_->Add(measured);
  if (task == 0) examples_ += examples;  // all tasks have the same ones
  if (task >= totals_.size()) {
    totals_.resize(task + 1, 0);
    not_finite_.resize(task + 1, 0);
  }
  for (const float weight : measured.weight) totals_[task] += static_cast<double>(weight);
  if (measured.weight.empty()) totals_[task] += static_cast<double>(examples);
  not_finite_[task] += CountNotFinite(counted);
}

int64_t MetricAccumulator::NotFinite(const JobMetric& metric) const {
  int64_t most = 0;
  for (size_t task = metric.first_task(); task < metric.end_task(); ++task) {
    if (task < not_finite_.size()) most = std::max(most, not_finite_[task]);
  }
  return most;
}

void MetricAccumulator::AddRanks(absl::Span<const int64_t> ranks,
                                 const MeasuredExamples& examples) {
  Measured measured;
  measured.ranks = ranks;
  measured.weight = examples.weights;
  measured.group = examples.groups;
  measured.unseen = examples.unseen;
  Add(measured, static_cast<int64_t>(ranks.size()));
  if (slices_ != nullptr) slices_->Add(measured, examples.slices);
}

absl::Status MetricAccumulator::AddPredictions(const Tensor& prediction, const Tensor& label,
                                               const MeasuredExamples& examples) {
  const absl::Span<const float> weights = examples.weights;
  const absl::Span<const int64_t> groups = examples.groups;
  if (prediction.dtype() != DType::kF32 || label.dtype() != DType::kF32 || label.rank() != 1 ||
      prediction.rank() < 1 || prediction.dim(0) != label.dim(0) ||
      (!weights.empty() && static_cast<int64_t>(weights.size()) != label.dim(0)) ||
      (!examples.scores.empty() && static_cast<int64_t>(examples.scores.size()) != label.dim(0)) ||
      (!groups.empty() && static_cast<int64_t>(groups.size()) != label.dim(0)) ||
      (!examples.unseen.empty() && static_cast<int64_t>(examples.unseen.size()) != label.dim(0)) ||
      (!examples.ranks.empty() && static_cast<int64_t>(examples.ranks.size()) != label.dim(0))) {
    return absl::InternalError(absl::StrCat("an evaluation step returned predictions ",
                                            prediction.ToString(), " for labels ",
                                            label.ToString()));
  }
  Measured measured;
  measured.classes = prediction.rank() == 2 ? prediction.dim(1) : 1;
  measured.prediction = prediction.values<float>();
  measured.label = label.values<float>();
  measured.score = examples.scores;
  measured.task = examples.task;
  measured.weight = weights;
  measured.group = groups;
  measured.ranks = examples.ranks;
  measured.unseen = examples.unseen;
  Add(measured, label.dim(0));
  if (slices_ != nullptr) slices_->Add(measured, examples.slices);
  return absl::OkStatus();
}

absl::Status MetricAccumulator::AddLoss(const Tensor& loss, const Tensor& pairs) {
  const auto number = [](const Tensor& t) {
    return t.dtype() == DType::kF32 && t.num_elements() == 1;
  };
  if (!number(loss) || !number(pairs)) {
    return absl::InternalError(absl::StrCat("wanted two numbers, a loss and its pairs; found ",
                                            loss.shape().ToString(), " and ",
                                            pairs.shape().ToString()));
  }
  Measured measured;
  measured.loss = static_cast<double>(loss.data<float>()[0]);
  Add(measured, std::llround(pairs.data<float>()[0]));
  return absl::OkStatus();
}

std::map<std::string, double> MetricAccumulator::Compute() const {
  std::map<std::string, double> values;
  if (examples_ == 0) return values;
  for (const JobMetric& metric : metrics_) {
    values[metric.name()] = NotFinite(metric) == 0 ? metric.Value(totals_) : std::nan("");
  }
  return values;
}

std::map<std::string, std::string> MetricAccumulator::Undefined() const {
  std::map<std::string, std::string> reasons;
  for (const JobMetric& metric : metrics_) {
    const int64_t not_finite = NotFinite(metric);
    std::string why;
    if (not_finite > 0) {
      why = absl::StrCat("the model's prediction of ", not_finite, " of ", examples_,
                         " examples is no finite number");
    } else if (examples_ > 0) {
      why = metric.WhyUndefined(totals_);
    }
    if (!why.empty()) reasons[metric.name()] = std::move(why);
  }
  return reasons;
}

}  // namespace coxswain::model
