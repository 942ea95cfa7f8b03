#include "runtime/data/time_split.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace coxswain::data {

bool SplitsAtValues(const proto::SplitSpec& split) {
  return split.has_validation_from() || split.has_test_from();
}

std::vector<Part> SplitByValue(const proto::SplitSpec& split, int64_t rows, const RowOrder& order,
                               std::vector<Part> held_out) {
  std::vector<Part> parts = std::move(held_out);
  parts.resize(static_cast<size_t>(rows), Part::kTraining);
  if (SplitsAtValues(split)) {
    for (size_t row = 0; row < parts.size(); ++row) {
      const bool test = split.has_test_from() && order.by[row] >= split.test_from();
      const bool validation =
          split.has_validation_from() && order.by[row] >= split.validation_from();
      parts[row] = test ? Part::kTest : validation ? Part::kValidation : Part::kTraining;
    }
    return parts;
  }
  std::vector<uint32_t> left;
  left.reserve(parts.size());
  for (size_t row = 0; row < parts.size(); ++row) {
    if (parts[row] == Part::kTraining) left.push_back(static_cast<uint32_t>(row));
  }
  const auto before = [&](uint32_t a, uint32_t b) {
    return order.by[a] != order.by[b] ? order.by[a] < order.by[b] : a < b;
  };
  const auto share = [&](double fraction) {
    return std::llround(fraction * static_cast<double>(left.size()));
  };
  const auto test = left.end() - share(split.test_fraction());
  const auto validation =
      test - std::min<int64_t>(share(split.validation_fraction()), test - left.begin());
  // Only which rows are behind these two places matters.
  if (test != left.end()) std::nth_element(left.begin(), test, left.end(), before);
  if (validation != test) std::nth_element(left.begin(), validation, test, before);
  for (auto row = validation; row != test; ++row) parts[*row] = Part::kValidation;
  for (auto row = test; row != left.end(); ++row) parts[*row] = Part::kTest;
  return parts;
}

}  // namespace coxswain::data
