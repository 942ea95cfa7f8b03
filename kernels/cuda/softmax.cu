// Softmax, its logarithm and their gradients over the last axis; formulas in kernels/softmax.cc.
#include "kernels/cuda/op_list.h"
#include "kernels/cuda/rows.h"

namespace coxswain::cuda {
namespace {

template <bool kLog, typename T, typename Rows>
struct SoftmaxRows {
  Rows rows;
  const T* x;
  T* y;

  COX_DEVICE void operator()(const Block& block, int64_t item) const {
    PerThread<T> max, sum;
    rows.Combine(block, item, -Infinity<T>(), Larger(), &max, [&](int, int64_t i) { return x[i]; });
    rows.Combine(block, item, T{0}, Plus(), &sum,
                 [&](int t, int64_t i) { return Exp(x[i] - max[t]); });
    // Of a row: what is subtracted from x, and what is multiplied with e^(x - max).
    PerThread<T> of_row;
    block.Apart([&](int t) { of_row[t] = kLog ? max[t] + Log(sum[t]) : T{1} / sum[t]; });
    rows.ForElements(block, item, [&](int t, int64_t i) {
      y[i] = kLog ? x[i] - of_row[t] : Exp(x[i] - max[t]) * of_row[t];
    });
  }
};

template <bool kLog, typename T, typename Rows>
struct SoftmaxGradRows {
  Rows rows;
  const T *g, *y;
  T* dx;

  COX_DEVICE void operator()(const Block& block, int64_t item) const {
    PerThread<T> sum;
    rows.Combine(block, item, T{0}, Plus(), &sum,
                 [&](int, int64_t i) { return kLog ? g[i] : g[i] * y[i]; });
    rows.ForElements(block, item, [&](int t, int64_t i) {
      dx[i] = kLog ? g[i] - Exp(y[i]) * sum[t] : (g[i] - sum[t]) * y[i];
    });
  }
};

int64_t WidthOf(const CoxTensor& x) { return x.dims[x.rank - 1]; }
int64_t RowsOf(const CoxTensor& x) { return DimsProduct(x, 0, x.rank - 1); }

template <bool kLog>
Status RunSoftmax(const Run& run) {
  const CoxTensor& x = run.input(0);
  return DispatchFloat(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    return LaunchRows(run.queue(), RowsOf(x), WidthOf(x), [&](auto rows) {
      return SoftmaxRows<kLog, T, decltype(rows)>{rows, Data<T>(x), Data<T>(run.output(0))};
    });
  });
}

template <bool kLog>
Status RunSoftmaxGrad(const Run& run) {
  const CoxTensor &g = run.input(0), &y = run.input(1);
  return DispatchFloat(g.dtype, [&](auto zero) {
    using T = decltype(zero);
    return LaunchRows(run.queue(), RowsOf(g), WidthOf(g), [&](auto rows) {
      return SoftmaxGradRows<kLog, T, decltype(rows)>{rows, Data<T>(g), Data<T>(y),
                                                      Data<T>(run.output(0))};
    });
  });
}

}  // namespace

void AddSoftmaxOps(OpTable* table) {
  table->Add("Softmax", Floats(), RunSoftmax<false>);
  table->Add("LogSoftmax", Floats(), RunSoftmax<true>);
  table->Add("SoftmaxGrad", Floats(), RunSoftmaxGrad<false>);
  table->Add("LogSoftmaxGrad", Floats(), RunSoftmaxGrad<true>);
}

}  // namespace coxswain::cuda
