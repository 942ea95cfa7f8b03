#pragma once

#include <utility>
#include <vector>

namespace coxswain::model {

// Of (score, label), where a label above 0.5 is positive. Not a number when one class is missing,
// for there is no pair to rank, or when a score is not a number.
double AreaUnderCurve(std::vector<std::pair<float, float>> scored);

}  // namespace coxswain::model
