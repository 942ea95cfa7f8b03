// Softmax cross entropy against a shared sample of negatives; the formulas are in
// kernels/sampled_softmax.cc.
#include "kernels/cuda/op_list.h"
#include "kernels/cuda/rows.h"

namespace coxswain::cuda {
namespace {

template <typename T, typename Rows>
struct SampledLoss {
  Rows rows;
  const T *of_true, *x;
  const int64_t *true_ids, *negative_ids;  // null: no ids are given
  T offset;
  T *loss, *true_backprop, *backprop;

  // Minus infinity where the negative is the row's own true id.
  COX_DEVICE T Logit(int64_t row, int64_t i) const {
    if (true_ids != nullptr && negative_ids[i - row * rows.width] == true_ids[row]) {
      return -Infinity<T>();
    }
    return x[i];
  }

  COX_DEVICE void operator()(const Block& block, int64_t item) const {
    PerThread<T> max, sum, first;  // first: e^(true logit - max)
    rows.Combine(block, item, -Infinity<T>(), Larger(), &max,
                 [&](int t, int64_t i) { return Logit(rows.RowOf(item, t), i); });
    rows.ForEach(block, item, [&](int t, int64_t row, int) {
      const T of_negatives = max[t] + offset;
      max[t] = of_true[row] > of_negatives ? of_true[row] : of_negatives;
      first[t] = Exp(of_true[row] - max[t]);
    });
    rows.Combine(block, item, T{0}, Plus(), &sum, [&](int t, int64_t i) {
      return Exp(Logit(rows.RowOf(item, t), i) - (max[t] - offset));
    });
    rows.ForElements(block, item, [&](int t, int64_t i) {
      const T e = Exp(Logit(rows.RowOf(item, t), i) - (max[t] - offset));
      backprop[i] = (T{1} / (first[t] + sum[t])) * e;
    });
    rows.ForEach(block, item, [&](int t, int64_t row, int lane) {
      if (lane != 0) return;
      const T total = first[t] + sum[t];
      loss[row] = Log(total) - (of_true[row] - max[t]);
      true_backprop[row] = -sum[t] / total;
    });
  }
};

double ReadOffset(const Node& node) { return node.Number("negative_offset", 0.0); }

Status RunLoss(const double& offset, const Run& run) {
  const CoxTensor& x = run.input(1);
  const bool with_ids = run.num_inputs() == 4;
  return DispatchFloat(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    return LaunchRows(run.queue(), x.dims[0], x.dims[1], [&](auto rows) {
      return SampledLoss<T, decltype(rows)>{rows,
                                            Data<T>(run.input(0)),
                                            Data<T>(x),
                                            with_ids ? Data<int64_t>(run.input(2)) : nullptr,
                                            with_ids ? Data<int64_t>(run.input(3)) : nullptr,
                                            static_cast<T>(offset),
                                            Data<T>(run.output(0)),
                                            Data<T>(run.output(1)),
                                            Data<T>(run.output(2))};
    });
  });
}

}  // namespace

void AddSampledSoftmax(OpTable* table) {
  table->Add("SampledSoftmaxCrossEntropy", Floats(), ReadOffset, RunLoss);
}

}  // namespace coxswain::cuda
