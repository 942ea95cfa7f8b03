// TopK: the largest values of each row, k rounds over the row by a block. TakeAlongLast and
// PutAlongLast: values at indices of each row. f32, f64.
#include "kernels/cuda/op_list.h"

namespace coxswain::cuda {
namespace {

template <typename T>
struct Entry {
  T value;
  int64_t index;  // -1: no entry, which is behind all others

  // The order of results: a NaN counts as largest, and of equal values the lower index comes first.
  COX_DEVICE bool Before(const Entry& other) const {
    if (index < 0 || other.index < 0) return index >= 0 && other.index < 0;
    const bool nan = value != value, other_nan = other.value != other.value;
    if (nan != other_nan) return nan;
    if (!nan && value != other.value) return value > other.value;
    return index < other.index;
  }
};

template <typename T>
struct TopOfRows {
  const T* x;
  int64_t n, k;
  T* values;
  int64_t* indices;

  COX_DEVICE void operator()(const Block& block, int64_t row) const {
    Entry<T>* best = block.shared<Entry<T>>();
    PerThread<Entry<T>> last;
    for (int64_t round = 0; round < k; ++round) {
      block.Phase([&](int t) {
        Entry<T> own{T{0}, -1};
        for (int64_t i = t; i < n; i += kThreads) {
          const Entry<T> entry{x[row * n + i], i};
          if ((round == 0 || last[t].Before(entry)) && entry.Before(own)) own = entry;
        }
        best[t] = own;
      });
      for (int apart = kThreads / 2; apart > 0; apart /= 2) {
        block.Phase([&](int t) {
          if (t < apart && best[t + apart].Before(best[t])) best[t] = best[t + apart];
        });
      }
      block.Phase([&](int t) {
        last[t] = best[0];
        if (t != 0) return;
        values[row * k + round] = best[0].value;
        indices[row * k + round] = best[0].index;
      });
    }
  }
};

Status RunTopK(const Run& run) {
  const CoxTensor &x = run.input(0), &values = run.output(0);
  const int64_t n = x.dims[x.rank - 1], k = values.dims[values.rank - 1];
  return DispatchFloat(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const TopOfRows<T> top{Data<T>(x), n, k, Data<T>(values), Data<int64_t>(run.output(1))};
    return LaunchBlocks(run.queue(), DimsProduct(x, 0, x.rank - 1), kThreads * sizeof(Entry<T>),
                        top);
  });
}

template <typename T, typename Id>
struct TakeOp {
  const T* x;
  Indices<Id> indices;
  int64_t k;

  COX_DEVICE T operator()(int64_t i) const {
    const int64_t index = indices.At(i, true);
    return index < 0 ? T{0} : x[i / k * indices.bound + index];
  }
};

// A thread for each row: an index may come twice, and sums keep one order.
template <typename T, typename Id>
struct PutRow {
  const T* g;
  Indices<Id> indices;
  int64_t k;
  T* out;

  COX_DEVICE void operator()(int64_t row) const {
    for (int64_t i = row * k; i < (row + 1) * k; ++i) {
      const int64_t index = indices.At(i, true);
      if (index >= 0) out[row * indices.bound + index] += g[i];
    }
  }
};

template <typename F>
Status DispatchBoth(const Run& run, const F& f) {
  return DispatchFloat(run.input(0).dtype, [&](auto value) {
    return DispatchIndex(run.input(1).dtype, [&](auto index) { return f(value, index); });
  });
}

Status RunTake(const Run& run) {
  const CoxTensor &x = run.input(0), &out = run.output(0);
  return DispatchBoth(run, [&](auto value, auto index) {
    using T = decltype(value);
    using Id = decltype(index);
    const TakeOp<T, Id> take{Data<T>(x), IndicesOf<Id>(run, 1, x.dims[x.rank - 1]),
                             out.dims[out.rank - 1]};
    return FillElements(run.queue(), Data<T>(out), Elements(out), take);
  });
}

Status RunPut(const Run& run) {
  const CoxTensor &g = run.input(0), &out = run.output(0);
  COX_CUDA_RETURN_IF_ERROR(FillZero(run.stream(), out.data, Bytes(out)));
  return DispatchBoth(run, [&](auto value, auto index) {
    using T = decltype(value);
    using Id = decltype(index);
    const PutRow<T, Id> put{Data<T>(g), IndicesOf<Id>(run, 1, out.dims[out.rank - 1]),
                            g.dims[g.rank - 1], Data<T>(out)};
    return ForElements(run.queue(), put.k == 0 ? 0 : DimsProduct(g, 0, g.rank - 1), put);
  });
}

}  // namespace

void AddTopKOps(OpTable* table) {
  table->Add("TopK", Floats(), RunTopK);
  table->Add("TakeAlongLast", Floats(), RunTake);
  table->Add("PutAlongLast", Floats(), RunPut);
}

}  // namespace coxswain::cuda
