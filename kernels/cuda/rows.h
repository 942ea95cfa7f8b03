// Kernels of which a team of threads does each row of a matrix: a warp for short rows, a block for
// long ones.
#pragma once

#include <type_traits>

#include "kernels/cuda/op.h"

namespace coxswain::cuda {

// The rows of one kernel. Its threads go over the columns that are kTeam apart, from `lane` on.
template <int kTeam>
struct Rows {
  static constexpr int64_t kPerItem = kThreads / kTeam;
  int64_t count, width;

  // The row of thread t; `count` or more: it has none.
  COX_DEVICE int64_t RowOf(int64_t item, int t) const { return item * kPerItem + t / kTeam; }

  // Calls f(t, row, lane) in each thread that has a row.
  template <typename F>
  COX_DEVICE void ForEach(const Block& block, int64_t item, const F& f) const {
    block.Apart([&](int t) {
      const int64_t row = RowOf(item, t);
      if (row < count) f(t, row, t % kTeam);
    });
  }

  // sums[t] = the sum (or what `join` makes of them) of f(t, i) over the row of thread t, i being
  // the place of an element in the matrix.
  template <typename T, typename Join, typename F>
  COX_DEVICE void Combine(const Block& block, int64_t item, T start, const Join& join,
                          PerThread<T>* sums, const F& f) const {
    block.Apart([&](int t) {
      T sum = start;
      const int64_t row = RowOf(item, t);
      if (row < count) {
        COX_UNROLL_BY(4)
        for (int64_t j = t % kTeam; j < width; j += kTeam) sum = join(sum, f(t, row * width + j));
      }
      (*sums)[t] = sum;
    });
    block.Combine<kTeam>(sums, join);
  }

  // Calls f(t, i) for each element of the item's rows.
  template <typename F>
  COX_DEVICE void ForElements(const Block& block, int64_t item, const F& f) const {
    block.Apart([&](int t) {
      const int64_t row = RowOf(item, t);
      if (row >= count) return;
      COX_UNROLL_BY(4)
      for (int64_t j = t % kTeam; j < width; j += kTeam) f(t, row * width + j);
    });
  }
};

// Starts the kernel that make(Rows<kTeam>) returns, with the team that suits the width.
template <typename Make>
Status LaunchRows(const Queue& queue, int64_t rows, int64_t width, const Make& make) {
  constexpr int64_t kWidthOfWarp = 1024;  // beyond, a warp would need 32 rounds
  if (width <= kWidthOfWarp) {
    using Warps = Rows<kWarp>;
    return LaunchBlocks(queue, CeilDiv(rows, Warps::kPerItem), 0, make(Warps{rows, width}));
  }
  return LaunchBlocks(queue, rows, 0, make(Rows<kThreads>{rows, width}));
}

}  // namespace coxswain::cuda
