// One metric, counted over the examples of an evaluation. Thread model: a value of one thread.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/types/span.h"
#include "coordinator/job/metric_kind.h"

namespace coxswain::model {

// What a model said of some examples, and what is true. Which of the members are set depends on
// the job's loss.
struct Measured {
  int64_t classes = 1;                 // 1: `prediction` has one number an example
  absl::Span<const float> prediction;  // f32 [B] or [B, classes]
  absl::Span<const float> label;       // f32 [B]
  absl::Span<const int64_t> ranks;  // i64 [B]: how many candidates score higher than the true one
  double loss = 0;                  // summed over pairs of words
};

class Metric {
 public:
  virtual ~Metric() = default;

  virtual void Add(const Measured& measured) = 0;
  // Of `examples` (at least 1) in all. Not a number where they do not define it.
  virtual double Value(int64_t examples) const = 0;
  // Why it is not defined; empty where it is.
  virtual std::string WhyUndefined() const { return ""; }
};

// MetricKind::make of a metric that has no K.
template <typename M>
std::unique_ptr<Metric> MakeMetric(int64_t) {
  return std::make_unique<M>();
}

// A probability that has a logarithm.
inline double Chance(double p) {
  constexpr double kTiny = 1e-7;
  return p < kTiny ? kTiny : p > 1 - kTiny ? 1 - kTiny : p;
}

// Calls `each(row, label)` for every example: `row` are its classes' numbers.
template <typename Each>
void ForEachExample(const Measured& m, Each each) {
  const auto classes = static_cast<size_t>(m.classes);
  for (size_t i = 0; i < m.label.size(); ++i) {
    each(m.prediction.subspan(i * classes, classes), m.label[i]);
  }
}

}  // namespace coxswain::model
