// Ranges that lie one behind the other: range k is from begins[k] to before begins[k + 1].
#pragma once

#include "kernels/cuda/launch.h"

namespace coxswain::cuda {

// The range of `count` that has the place `at`, which is before begins[count]. Empty ranges have
// none.
COX_DEVICE int FindRange(const int64_t* begins, int count, int64_t at) {
  int low = 0, high = count;  // the last range that begins at `at` or before is in [low, high)
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (begins[middle] <= at) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace coxswain::cuda
