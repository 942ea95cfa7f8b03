// SumToLike and BroadcastLike: only the shape of `like`, that of the output, counts.
#include "kernels/cuda/broadcast.h"
#include "kernels/cuda/op_list.h"
#include "kernels/cuda/reduction.h"

namespace coxswain::cuda {
namespace {

Status RunSumToLike(const Run& run) {
  const CoxTensor &x = run.input(0), &out = run.output(0);
  if (SameShape(x, out)) return PassOn(run, x, out);
  const int extra = x.rank - out.rank;
  std::vector<bool> flags(static_cast<size_t>(x.rank), true);
  for (int i = 0; i < out.rank; ++i) {
    flags[extra + i] = out.dims[i] == 1 && x.dims[extra + i] != 1;
  }
  const auto sum = [&](auto zero) {
    using T = decltype(zero);
    return Reduce<SumReduction<T>, T>(run, x, flags, T{1}, out);
  };
  return x.dtype == COX_I64 ? sum(int64_t{}) : DispatchFloat(x.dtype, sum);
}

template <typename T>
struct RepeatElements {
  const T* x;
  Walk walk;
  COX_DEVICE T operator()(int64_t i) const { return x[walk.FindA(i)]; }
};

Status RunBroadcastLike(const Run& run) {
  const CoxTensor &x = run.input(0), &out = run.output(0);
  if (SameShape(x, out)) return PassOn(run, x, out);
  return DispatchFloat(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    return FillElements(run.queue(), Data<T>(out), Elements(out),
                        RepeatElements<T>{Data<T>(x), BroadcastWalk(x, x, out)});
  });
}

}  // namespace

void AddBroadcastOps(OpTable* table) {
  table->Add("SumToLike", {COX_F32, COX_F64, COX_I64}, RunSumToLike);
  table->Add("BroadcastLike", Floats(), RunBroadcastLike);
}

}  // namespace coxswain::cuda
