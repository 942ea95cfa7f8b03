// Examples of which metrics are computed, with memory of their own. Thread model: a value.
#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/model/metric.h"

namespace coxswain::model {

struct MeasuredCopy {
  size_t task = 0;
  int64_t classes = 1;
  std::vector<float> prediction, label, score, weight;
  std::vector<int64_t> ranks, group, unseen;

  size_t size() const { return label.empty() ? ranks.size() : label.size(); }
  Measured View() const;
  // From now on there are none, and those that come are like those of `from`.
  void Restart(const Measured& from);
  // Adds example `i` of `from`.
  void Take(const Measured& from, size_t i);
};

}  // namespace coxswain::model
