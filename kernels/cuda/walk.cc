#include "kernels/cuda/walk.h"

namespace coxswain::cuda {

Walk MakeWalk(const std::vector<WalkDim>& dims) {
  Walk walk;
  int64_t elements = 1;
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    elements *= dim->size;
    if (dim->size == 1) continue;
    const int top = walk.rank - 1;
    if (walk.rank > 0 && dim->a == walk.a[top] * walk.dims[top] &&
        dim->b == walk.b[top] * walk.dims[top]) {
      walk.dims[top] *= dim->size;
      continue;
    }
    walk.dims[walk.rank] = dim->size;
    walk.a[walk.rank] = dim->a;
    walk.b[walk.rank] = dim->b;
    ++walk.rank;
  }
  walk.small = elements <= int64_t{UINT32_MAX};
  walk.a_dense = walk.rank == 0 || (walk.rank == 1 && walk.a[0] == 1);
  walk.b_dense = walk.rank == 0 || (walk.rank == 1 && walk.b[0] == 1);
  return walk;
}

std::vector<int64_t> Strides(const CoxTensor& t) {
  std::vector<int64_t> strides(static_cast<size_t>(t.rank), 1);
  for (int i = t.rank - 2; i >= 0; --i) strides[i] = strides[i + 1] * t.dims[i + 1];
  return strides;
}

}  // namespace coxswain::cuda
