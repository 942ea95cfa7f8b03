// How the elements of a box, counted in row-major order, lie in two tensors.
#pragma once

#include <vector>

#include "kernels/cuda/op.h"

namespace coxswain::cuda {

constexpr int kMaxRank = 16;  // of any tensor; see runtime/tensor/limits.h

// Dimensions are merged into as few as possible; the innermost comes first.
struct Walk {
  int rank = 0;
  int64_t dims[kMaxRank];
  int64_t a[kMaxRank], b[kMaxRank];  // strides in elements

  bool a_dense = false, b_dense = false;  // element i of the box is element i of the tensor
  bool small = false;                     // fewer than 2^32 elements: 64-bit divisions are slow

  // Where element i of the box is.
  COX_DEVICE void Find(int64_t i, int64_t* at_a, int64_t* at_b) const {
    if (small) {
      FindAs<uint32_t>(static_cast<uint32_t>(i), at_a, at_b);
    } else {
      FindAs<uint64_t>(static_cast<uint64_t>(i), at_a, at_b);
    }
  }
  COX_DEVICE int64_t FindA(int64_t i) const {
    int64_t at = i, other = i;
    if (!a_dense) Find(i, &at, &other);
    return at;
  }

 private:
  template <typename Index>
  COX_DEVICE void FindAs(Index i, int64_t* at_a, int64_t* at_b) const {
    int64_t in_a = 0, in_b = 0;
    for (int d = 0; d < rank; ++d) {
      const Index size = static_cast<Index>(dims[d]);
      const Index rest = d + 1 == rank ? 0 : i / size;  // the outermost dimension is what is left
      const int64_t step = static_cast<int64_t>(i - rest * size);
      in_a += step * a[d];
      in_b += step * b[d];
      i = rest;
    }
    *at_a = in_a;
    *at_b = in_b;
  }
};

struct WalkDim {
  int64_t size, a, b;
};
// `dims`: outermost first.
Walk MakeWalk(const std::vector<WalkDim>& dims);

// The strides of a dense tensor.
std::vector<int64_t> Strides(const CoxTensor& t);

}  // namespace coxswain::cuda
