#include "kernels/cuda/broadcast.h"

namespace coxswain::cuda {
namespace {

// The stride of x along dimension `i` of a tensor of `rank`.
int64_t StrideOf(const CoxTensor& x, int i, int rank) {
  const int own = i - (rank - x.rank);
  return own < 0 || x.dims[own] == 1 ? 0 : DimsProduct(x, own + 1, x.rank);
}

}  // namespace

Walk BroadcastWalk(const CoxTensor& a, const CoxTensor& b, const CoxTensor& out) {
  std::vector<WalkDim> dims;
  for (int i = 0; i < out.rank; ++i) {
    dims.push_back({out.dims[i], StrideOf(a, i, out.rank), StrideOf(b, i, out.rank)});
  }
  return MakeWalk(dims);
}

}  // namespace coxswain::cuda
