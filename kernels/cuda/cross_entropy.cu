// Cross entropies and what their backward pass needs; the formulas are in kernels/cross_entropy.cc.
#include "kernels/cuda/op_list.h"
#include "kernels/cuda/rows.h"

namespace coxswain::cuda {
namespace {

template <typename T, typename Rows>
struct DenseLoss {
  Rows rows;
  const T *x, *p;
  T *loss, *backprop;

  COX_DEVICE void operator()(const Block& block, int64_t item) const {
    PerThread<T> max, weighted, total, sum;
    rows.Combine(block, item, -Infinity<T>(), Larger(), &max, [&](int, int64_t i) { return x[i]; });
    rows.Combine(block, item, T{0}, Plus(), &weighted,
                 [&](int t, int64_t i) { return p[i] * (x[i] - max[t]); });
    rows.Combine(block, item, T{0}, Plus(), &total, [&](int, int64_t i) { return p[i]; });
    rows.Combine(block, item, T{0}, Plus(), &sum,
                 [&](int t, int64_t i) { return Exp(x[i] - max[t]); });
    rows.ForElements(block, item, [&](int t, int64_t i) {
      backprop[i] = Exp(x[i] - max[t]) * (total[t] / sum[t]) - p[i];
    });
    rows.ForEach(block, item, [&](int t, int64_t row, int lane) {
      if (lane == 0) loss[row] = total[t] * Log(sum[t]) - weighted[t];
    });
  }
};

template <typename T, typename Rows>
struct SparseLoss {
  Rows rows;
  const T* x;
  Indices<int64_t> labels;
  T *loss, *backprop;

  COX_DEVICE void operator()(const Block& block, int64_t item) const {
    PerThread<T> max, sum;
    PerThread<int64_t> hit;  // the place of the row's label; -1: none
    PerThread<T> of_hit;
    rows.Combine(block, item, -Infinity<T>(), Larger(), &max, [&](int, int64_t i) { return x[i]; });
    rows.Combine(block, item, T{0}, Plus(), &sum,
                 [&](int t, int64_t i) { return Exp(x[i] - max[t]); });
    rows.ForEach(block, item, [&](int t, int64_t row, int lane) {
      const int64_t label = labels.At(row, lane == 0);
      hit[t] = label < 0 ? -1 : row * rows.width + label;
      of_hit[t] = label < 0 ? T{0} : x[hit[t]] - max[t];
    });
    rows.ForElements(block, item, [&](int t, int64_t i) {
      backprop[i] = Exp(x[i] - max[t]) * (T{1} / sum[t]) - (i == hit[t] ? T{1} : T{0});
    });
    rows.ForEach(block, item, [&](int t, int64_t row, int lane) {
      if (lane == 0) loss[row] = Log(sum[t]) - of_hit[t];
    });
  }
};

Status RunDense(const Run& run) {
  const CoxTensor &x = run.input(0), &p = run.input(1);
  return DispatchFloat(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    return LaunchRows(run.queue(), x.dims[0], x.dims[1], [&](auto rows) {
      return DenseLoss<T, decltype(rows)>{rows, Data<T>(x), Data<T>(p), Data<T>(run.output(0)),
                                          Data<T>(run.output(1))};
    });
  });
}

Status RunSparse(const Run& run) {
  const CoxTensor& x = run.input(0);
  return DispatchFloat(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    return LaunchRows(run.queue(), x.dims[0], x.dims[1], [&](auto rows) {
      return SparseLoss<T, decltype(rows)>{rows, Data<T>(x), IndicesOf<int64_t>(run, 1, x.dims[1]),
                                           Data<T>(run.output(0)), Data<T>(run.output(1))};
    });
  });
}

template <typename T>
struct SigmoidLoss {
  const T *logits, *labels;

  COX_DEVICE T operator()(int64_t i) const {
    const T x = logits[i], z = labels[i];
    return (x < T{0} ? T{0} : x) - x * z + Log1p(Exp(x < T{0} ? x : -x));
  }
};

Status RunSigmoid(const Run& run) {
  const CoxTensor& x = run.input(0);
  return DispatchFloat(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    return FillElements(run.queue(), Data<T>(run.output(0)), Elements(x),
                        SigmoidLoss<T>{Data<T>(x), Data<T>(run.input(1))});
  });
}

}  // namespace

void AddCrossEntropyOps(OpTable* table) {
  table->Add("SoftmaxCrossEntropy", Floats(), RunDense);
  table->Add("SparseSoftmaxCrossEntropy", Floats(), RunSparse);
  table->Add("SigmoidCrossEntropy", Floats(), RunSigmoid);
}

}  // namespace coxswain::cuda
