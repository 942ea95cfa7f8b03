// The gradients of an update, summed by row, for optimizers that move all rows in one pass.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "ps_server/row_block.h"

namespace coxswain::ps {

// One gradient per row, ascending; a row that is named several times has the sum. Thread model:
// immutable; points into the gradient that it was made from.
template <typename T>
class SummedRows {
 public:
  // Gradient rows [n, width] of rows `ids`.
  SummedRows(const int64_t* ids, int64_t n, const T* gradient, int64_t width) {
    rows_.reserve(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) rows_.push_back({ids[i], gradient + i * width});
    // Stable: sums have the order of the update.
    std::stable_sort(rows_.begin(), rows_.end(), Before);
    const auto again = std::adjacent_find(
        rows_.begin(), rows_.end(), [](const auto& a, const auto& b) { return a.row == b.row; });
    if (again != rows_.end()) Sum(static_cast<size_t>(width));
  }
  SummedRows(const SummedRows&) = delete;
  SummedRows& operator=(const SummedRows&) = delete;

  absl::Span<const RowGradient<T>> rows() const { return rows_; }

 private:
  static bool Before(const RowGradient<T>& a, const RowGradient<T>& b) { return a.row < b.row; }

  void Sum(size_t width) {
    sums_.reserve(rows_.size() * width);  // pointers into it stay
    size_t kept = 0;
    for (size_t begin = 0, end = 0; begin < rows_.size(); begin = end) {
      for (end = begin + 1; end < rows_.size() && rows_[end].row == rows_[begin].row;) ++end;
      RowGradient<T> sum = rows_[begin];
      if (end - begin > 1) {
        const size_t at = sums_.size();
        sums_.insert(sums_.end(), sum.values, sum.values + width);
        for (size_t i = begin + 1; i < end; ++i) {
          for (size_t e = 0; e < width; ++e) sums_[at + e] += rows_[i].values[e];
        }
        sum.values = sums_.data() + at;
      }
      rows_[kept++] = sum;
    }
    rows_.resize(kept);
  }

  std::vector<RowGradient<T>> rows_;
  std::vector<T> sums_;
};

}  // namespace coxswain::ps
