// Metrics of parts of the examples: those with the same value of a feature (evaluate.slices), as a
// metric of all examples may hide that a model is no good for some. Thread model: used by one
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/model/metric.h"

namespace coxswain::model {

class MetricAccumulator;

class Slices {
 public:
  // Values that have slices of their own, at most: the first ones of a vocabulary, which are the
  // most frequent ones if it was learned.
  static constexpr int64_t kMostValues = 1000;

  // `values`: for each feature, the number of values with names. Ids behind them, and behind
  // kMostValues, are one slice.
  Slices(const std::vector<job::MetricSpec>& metrics, const std::vector<int64_t>& values);
  ~Slices();

  // `ids`: of each feature, i64 [B], the values of the examples.
  void Add(const Measured& measured, absl::Span<const absl::Span<const int64_t>> ids);

  struct Slice {
    size_t feature = 0;         // its place in `values`
    std::optional<int64_t> id;  // none: that of the values without one of their own
    int64_t examples = 0;
    std::map<std::string, double> metrics;  // MetricAccumulator::Compute
  };
  // Of the values that there are, by feature and id.
  std::vector<Slice> Compute() const;

 private:
  struct Feature {
    int64_t end = 0;  // the id that stands for those of one slice
    std::map<int64_t, std::unique_ptr<MetricAccumulator>> slices;
  };

  const std::vector<job::MetricSpec> metrics_;
  std::vector<Feature> features_;
};

}  // namespace coxswain::model
