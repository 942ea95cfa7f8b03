// Transpose by any permutation. Any dtype.
#include "kernels/cuda/op_list.h"
#include "kernels/cuda/walk.h"

namespace coxswain::cuda {
namespace {

using Perm = std::vector<int64_t>;

Perm ReadPerm(const Node& node) { return node.List("perm"); }

template <typename T>
struct TakeElement {
  const T* x;
  Walk walk;
  COX_DEVICE T operator()(int64_t i) const { return x[walk.FindA(i)]; }
};

Status RunTranspose(const Perm& perm, const Run& run) {
  const CoxTensor &x = run.input(0), &out = run.output(0);
  const std::vector<int64_t> from = Strides(x), to = Strides(out);
  std::vector<WalkDim> dims;
  for (int i = 0; i < out.rank; ++i) dims.push_back({out.dims[i], from[perm[i]], to[i]});
  const Walk walk = MakeWalk(dims);
  if (walk.a_dense) return PassOn(run, x, out);
  return DispatchBytes(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    return FillElements(run.queue(), Data<T>(out), Elements(out), TakeElement<T>{Data<T>(x), walk});
  });
}

}  // namespace

void AddTranspose(OpTable* table) { table->Add("Transpose", AllTypes(), ReadPerm, RunTranspose); }

}  // namespace coxswain::cuda
