#pragma once

#include <utility>
#include <vector>

#include "coordinator/model/metric.h"

namespace coxswain::model {

struct ScoredExample {
  float score;
  float label;  // above 0.5: positive
  float weight = 1;
};

inline ScoredExample ScoredOf(const Measured& m, size_t example) {
  return {m.score_of(example), m.label[example], static_cast<float>(m.weight_of(example))};
}

// Not a number when one class is missing, for there is no pair to rank, or when a score is not a
// number.
double WeightedArea(std::vector<ScoredExample> scored);
// The same of (score, label), which all count the same.
double AreaUnderCurve(const std::vector<std::pair<float, float>>& scored);

}  // namespace coxswain::model
