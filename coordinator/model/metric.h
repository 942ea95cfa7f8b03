// One metric, accumulated over the examples of an evaluation. Thread model: used by one thread.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/types/span.h"
#include "coordinator/job/metric_kind.h"

namespace coxswain::model {

// A model's predictions for some examples, and the true values. Which of the members are set
// depends on the job's loss.
struct Measured {
  int64_t classes = 1;                 // 1: `prediction` has one number an example
  absl::Span<const float> prediction;  // f32 [B] or [B, classes]
  absl::Span<const float> label;       // f32 [B]
  // f32 [B]: numbers in the order of the predictions, as fine at 1 as at 0: a probability in f32 is
  // 1 from a logit of 17 on. Empty: the predictions are.
  absl::Span<const float> score;
  // i64 [B]: the number of candidates that score higher than the true one; below 0: the example has
  // no rank.
  absl::Span<const int64_t> ranks;
  absl::Span<const float> weight;   // f32 [B]: the weights of the examples; empty: all 1
  absl::Span<const int64_t> group;  // i64 [B]: equal numbers form a group; may be empty
  // For ranks, i64 [B]: the example's item where it is a candidate for other examples of its group;
  // -1 where it is none. Empty: none is.
  absl::Span<const int64_t> unseen;
  double loss = 0;  // summed over pairs of words
  size_t task = 0;  // whose predictions these are, of a model that has several

  float score_of(size_t example) const {
    return score.empty() ? prediction[example] : score[example];
  }
  double weight_of(size_t example) const {
    return weight.empty() ? 1 : static_cast<double>(weight[example]);
  }
};

class Metric {
 public:
  virtual ~Metric() = default;

  virtual void Add(const Measured& measured) = 0;
  // `total`: the sum of the weights of all examples (or the number of pairs), above 0. Returns NaN
  // if the metric is not defined for these examples.
  virtual double Value(double total) const = 0;
  // Why the metric is not defined; empty if it is.
  virtual std::string WhyUndefined() const { return ""; }
};

// MetricKind::make of a metric that has no K.
template <typename M>
std::unique_ptr<Metric> MakeMetric(int64_t) {
  return std::make_unique<M>();
}

// Why a metric of ranks is not defined if no example has a rank.
inline constexpr char kNothingRanked[] = "no example is an item that its user has";

// Clips a probability so that it has a finite logarithm.
inline double Chance(double p) {
  constexpr double kTiny = 1e-7;
  return p < kTiny ? kTiny : p > 1 - kTiny ? 1 - kTiny : p;
}
// The log loss of a label from 0 to 1: -y log p - (1 - y) log(1 - p).
inline double LogLossOf(double p, double label) {
  const double chance = Chance(p);
  return -(label * std::log(chance) + (1 - label) * std::log1p(-chance));
}

// Calls `each(row, label, weight)` for every example; `row` has the predictions of its classes.
template <typename Each>
void ForEachExample(const Measured& m, Each each) {
  const auto classes = static_cast<size_t>(m.classes);
  for (size_t i = 0; i < m.label.size(); ++i) {
    each(m.prediction.subspan(i * classes, classes), m.label[i], m.weight_of(i));
  }
}

}  // namespace coxswain::model
