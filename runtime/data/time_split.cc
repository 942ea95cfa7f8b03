#include "runtime/data/time_split.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace coxswain::data {

std::vector<bool> LastRows(int64_t rows, int64_t min_rows, const RowOrder& order) {
  struct Last {
    int64_t row = -1;
    int64_t count = 0;
  };
  std::vector<Last> of_group(static_cast<size_t>(order.groups));
  for (int64_t row = 0; row < rows; ++row) {
    const auto at = static_cast<size_t>(row);
    Last& last = of_group[static_cast<size_t>(order.group_of[at])];
    if (last.count++ == 0 || order.by[at] >= order.by[static_cast<size_t>(last.row)]) {
      last.row = row;
    }
  }
  std::vector<bool> held_out(static_cast<size_t>(rows), false);
  for (const Last& last : of_group) {
    if (last.count > 0 && last.count >= min_rows) held_out[static_cast<size_t>(last.row)] = true;
  }
  return held_out;
}

std::vector<Part> SplitByValue(const proto::SplitSpec& split, int64_t rows, const RowOrder& order,
                               const std::vector<bool>& held_out) {
  std::vector<Part> parts(static_cast<size_t>(rows), Part::kTraining);
  std::vector<uint32_t> left;
  left.reserve(parts.size());
  for (size_t row = 0; row < parts.size(); ++row) {
    if (held_out.empty() || !held_out[row]) {
      left.push_back(static_cast<uint32_t>(row));
    } else {
      parts[row] = Part::kTest;
    }
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
