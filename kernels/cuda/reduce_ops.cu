// ReduceSum, ReduceMean, ReduceMax and ReduceGrad. f32, f64; sums also i64.
#include "kernels/cuda/broadcast.h"
#include "kernels/cuda/op_list.h"
#include "kernels/cuda/reduction.h"

namespace coxswain::cuda {
namespace {

struct ReduceAttrs {
  std::vector<int64_t> axes;
  bool mean = false;
};

ReduceAttrs ReadReduce(const Node& node) {
  return {node.List("axes"), node.Integer("mean", 0) != 0};
}

std::vector<bool> Flags(const ReduceAttrs& a, int rank) {
  std::vector<bool> flags(static_cast<size_t>(rank), a.axes.empty());
  for (int64_t axis : a.axes) flags[NormalizeAxis(axis, rank)] = true;
  return flags;
}

Status RunSum(const ReduceAttrs& a, const Run& run) {
  const CoxTensor& x = run.input(0);
  const auto sum = [&](auto zero) {
    using T = decltype(zero);
    return Reduce<SumReduction<T>, T>(run, x, Flags(a, x.rank), T{1}, run.output(0));
  };
  return x.dtype == COX_I64 ? sum(int64_t{}) : DispatchFloat(x.dtype, sum);
}

Status RunMean(const ReduceAttrs& a, const Run& run) {
  const CoxTensor& x = run.input(0);
  const std::vector<bool> flags = Flags(a, x.rank);
  int64_t count = 1;
  for (int i = 0; i < x.rank; ++i) count *= flags[i] ? x.dims[i] : 1;
  const double factor = count == 0 ? static_cast<double>(NAN) : 1.0 / static_cast<double>(count);
  return DispatchFloat(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    return Reduce<SumReduction<T>, T>(run, x, flags, static_cast<T>(factor), run.output(0));
  });
}

Status RunMax(const ReduceAttrs& a, const Run& run) {
  const CoxTensor& x = run.input(0);
  return DispatchFloat(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    return Reduce<MaxReduction<T>, T>(run, x, Flags(a, x.rank), T{1}, run.output(0));
  });
}

template <typename T>
struct RepeatOp {
  const T* g;
  T factor;
  Walk walk;

  COX_DEVICE T operator()(int64_t i) const { return g[walk.FindA(i)] * factor; }
};

Status RunReduceGrad(const ReduceAttrs& a, const Run& run) {
  const CoxTensor& out = run.output(0);
  const std::vector<bool> flags = Flags(a, out.rank);
  CoxTensor g = run.input(0);
  const double count = a.mean ? static_cast<double>(Elements(out)) /
                                    static_cast<double>(Elements(g) == 0 ? 1 : Elements(g))
                              : 1.0;
  std::vector<int64_t> kept(out.dims, out.dims + out.rank);
  for (int i = 0; i < out.rank; ++i) {
    if (flags[i]) kept[i] = 1;
  }
  g.dims = kept.data();
  g.rank = out.rank;
  return DispatchFloat(g.dtype, [&](auto zero) {
    using T = decltype(zero);
    const RepeatOp<T> repeat{Data<T>(g), static_cast<T>(1.0 / (count < 1.0 ? 1.0 : count)),
                             BroadcastWalk(g, g, out)};
    return FillElements(run.queue(), Data<T>(out), Elements(out), repeat);
  });
}

}  // namespace

void AddReduceOps(OpTable* table) {
  table->Add("ReduceSum", {COX_F32, COX_F64, COX_I64}, ReadReduce, RunSum);
  table->Add("ReduceMean", Floats(), ReadReduce, RunMean);
  table->Add("ReduceMax", Floats(), ReadReduce, RunMax);
  table->Add("ReduceGrad", Floats(), ReadReduce, RunReduceGrad);
}

}  // namespace coxswain::cuda
