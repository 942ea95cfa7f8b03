// RowDot and ScaleRows. f32, f64.
#include "kernels/cuda/op_list.h"
#include "kernels/cuda/rows.h"

namespace coxswain::cuda {
namespace {

template <typename T, typename Rows>
struct RowDots {
  Rows rows;
  const T *a, *b;
  T* out;

  COX_DEVICE void operator()(const Block& block, int64_t item) const {
    PerThread<T> sums;
    rows.Combine(block, item, T{0}, Plus(), &sums, [&](int, int64_t i) { return a[i] * b[i]; });
    rows.ForEach(block, item, [&](int t, int64_t row, int lane) {
      if (lane == 0) out[row] = sums[t];
    });
  }
};

Status RunRowDot(const Run& run) {
  const CoxTensor &a = run.input(0), &b = run.input(1);
  return DispatchFloat(a.dtype, [&](auto zero) {
    using T = decltype(zero);
    return LaunchRows(run.queue(), a.dims[0], a.dims[1], [&](auto rows) {
      return RowDots<T, decltype(rows)>{rows, Data<T>(a), Data<T>(b), Data<T>(run.output(0))};
    });
  });
}

template <typename T>
struct ScaleOp {
  const T *x, *scales;
  int64_t width;
  COX_DEVICE T operator()(int64_t i) const { return scales[i / width] * x[i]; }
};

Status RunScaleRows(const Run& run) {
  const CoxTensor &x = run.input(0), &out = run.output(0);
  return DispatchFloat(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    return FillElements(run.queue(), Data<T>(out), Elements(out),
                        ScaleOp<T>{Data<T>(x), Data<T>(run.input(1)), x.dims[1]});
  });
}

}  // namespace

void AddRowOps(OpTable* table) {
  table->Add("RowDot", Floats(), RunRowDot);
  table->Add("ScaleRows", Floats(), RunScaleRows);
}

}  // namespace coxswain::cuda
