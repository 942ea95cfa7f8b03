// NegativeSamplingLoss: sums of log(1 + e^x) over rows, and their derivatives.
#include "kernels/cuda/op_list.h"
#include "kernels/cuda/rows.h"

namespace coxswain::cuda {
namespace {

template <typename T, typename Rows>
struct NegativeLoss {
  Rows rows;
  const T* x;
  T *loss, *backprop;

  COX_DEVICE void operator()(const Block& block, int64_t item) const {
    PerThread<T> sum;
    rows.Combine(block, item, T{0}, Plus(), &sum, [&](int, int64_t i) {
      const T logit = x[i];
      const T e = Exp(logit < T{0} ? logit : -logit);
      const T inverse = T{1} / (T{1} + e);
      backprop[i] = logit < T{0} ? e * inverse : inverse;
      return (logit < T{0} ? T{0} : logit) + Log1p(e);
    });
    rows.ForEach(block, item, [&](int t, int64_t row, int lane) {
      if (lane == 0) loss[row] = sum[t];
    });
  }
};

Status RunLoss(const Run& run) {
  const CoxTensor& x = run.input(0);
  return DispatchFloat(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    return LaunchRows(run.queue(), x.dims[0], x.dims[1], [&](auto rows) {
      return NegativeLoss<T, decltype(rows)>{rows, Data<T>(x), Data<T>(run.output(0)),
                                             Data<T>(run.output(1))};
    });
  });
}

}  // namespace

void AddNegativeSampling(OpTable* table) { table->Add("NegativeSamplingLoss", Floats(), RunLoss); }

}  // namespace coxswain::cuda
