// Sums and maxima over some of a tensor's dimensions.
//
// Deterministic: how a long dimension is cut into parts depends on the shape alone, and the parts
// are joined in a fixed order.
#pragma once

#include <type_traits>
#include <vector>

#include "kernels/cuda/op.h"

namespace coxswain::cuda {

// f32 is summed in f64, as on the CPU; integers in the unsigned type, which wraps.
template <typename T>
struct SumReduction {
  using Acc = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  using Join = Plus;
  COX_DEVICE static Acc Start() { return Acc{0}; }
};
template <typename T>
struct MaxReduction {
  using Acc = T;
  using Join = LargerOrNan;
  COX_DEVICE static Acc Start() { return -Infinity<T>(); }
};

// x seen as [outer, middle, inner], with the middle cut into `parts` parts of `length`:
// out [outer, parts, inner]. Results that are of type T are multiplied by `factor`.
template <typename R, typename T, typename In, typename Out>
struct ReduceStep {
  const In* x;
  Out* out;
  int64_t outer, middle, inner, parts, length;
  T factor;

  COX_DEVICE Out Finish(typename R::Acc value) const {
    if constexpr (std::is_same_v<Out, T>) {
      return static_cast<T>(value) * factor;
    } else {
      return value;
    }
  }
};

// One thread for each result.
template <typename R, typename T, typename In, typename Out>
struct ReduceColumns {
  ReduceStep<R, T, In, Out> step;

  COX_DEVICE void operator()(int64_t i) const {
    const int64_t j = i % step.inner, part = i / step.inner % step.parts;
    const int64_t o = i / step.inner / step.parts;
    const int64_t first = part * step.length;
    const int64_t last = first + step.length < step.middle ? first + step.length : step.middle;
    const In* at = step.x + (o * step.middle + first) * step.inner + j;
    typename R::Acc sum = R::Start();
    COX_UNROLL_BY(8)
    for (int64_t r = first; r < last; ++r, at += step.inner) {
      sum = typename R::Join()(sum, static_cast<typename R::Acc>(*at));
    }
    step.out[i] = step.Finish(sum);
  }
};

// For few results: a block for some columns, in which several threads share each column.
template <typename R, typename T, typename In, typename Out>
struct ReduceTallColumns {
  static constexpr int kColumns = 8;  // of an item: neighbours are read together
  static constexpr int kShare = kThreads / kColumns;
  ReduceStep<R, T, In, Out> step;

  COX_BOTH int64_t groups() const { return CeilDiv(step.inner, kColumns); }

  COX_DEVICE void operator()(const Block& block, int64_t item) const {
    using Acc = typename R::Acc;
    const int64_t first_column = item % groups() * kColumns, row = item / groups();
    const int64_t first = row % step.parts * step.length;
    const int64_t last = first + step.length < step.middle ? first + step.length : step.middle;
    const In* const x = step.x + row / step.parts * step.middle * step.inner;
    Acc* const sums = block.shared<Acc>();
    block.Phase([&](int t) {
      const int64_t column = first_column + t % kColumns;
      Acc sum = R::Start();
      if (column < step.inner) {
        COX_UNROLL_BY(8)
        for (int64_t r = first + t / kColumns; r < last; r += kShare) {
          sum = typename R::Join()(sum, static_cast<Acc>(x[r * step.inner + column]));
        }
      }
      sums[t] = sum;
    });
    block.Phase([&](int t) {
      const int64_t column = first_column + t;
      if (t >= kColumns || column >= step.inner) return;
      Acc sum = sums[t];
      COX_UNROLL
      for (int k = 1; k < kShare; ++k) sum = typename R::Join()(sum, sums[k * kColumns + t]);
      step.out[row * step.inner + column] = step.Finish(sum);
    });
  }
};

// One warp for each result, of rows that are dense (inner == 1).
template <typename R, typename T, typename In, typename Out>
struct ReduceRows {
  static constexpr int64_t kRows = kThreads / kWarp;  // of an item
  ReduceStep<R, T, In, Out> step;

  COX_DEVICE void operator()(const Block& block, int64_t item) const {
    using Acc = typename R::Acc;
    PerThread<Acc> sums;
    block.Apart([&](int t) {
      Acc sum = R::Start();
      const int64_t row = item * kRows + t / kWarp;
      if (row < step.outer * step.parts) {
        const int64_t o = row / step.parts, first = row % step.parts * step.length;
        const int64_t last = first + step.length < step.middle ? first + step.length : step.middle;
        const In* x = step.x + o * step.middle;
        COX_UNROLL_BY(8)
        for (int64_t i = first + t % kWarp; i < last; i += kWarp) {
          sum = typename R::Join()(sum, static_cast<Acc>(x[i]));
        }
      }
      sums[t] = sum;
    });
    block.Combine<kWarp>(&sums, typename R::Join());
    block.Apart([&](int t) {
      const int64_t row = item * kRows + t / kWarp;
      if (t % kWarp == 0 && row < step.outer * step.parts) step.out[row] = step.Finish(sums[t]);
    });
  }
};

template <typename R, typename T, typename In, typename Out>
Status LaunchReduce(const Queue& queue, const ReduceStep<R, T, In, Out>& step) {
  if (step.inner == 1) {
    const ReduceRows<R, T, In, Out> rows{step};
    return LaunchBlocks(queue, CeilDiv(step.outer * step.parts, rows.kRows), 0, rows);
  }
  constexpr int64_t kFewResults = 1 << 14, kTall = 32;
  const int64_t results = step.outer * step.parts * step.inner;
  if (results <= kFewResults && step.length >= kTall) {
    const ReduceTallColumns<R, T, In, Out> tall{step};
    return LaunchBlocks(queue, step.outer * step.parts * tall.groups(),
                        kThreads * sizeof(typename R::Acc), tall);
  }
  return ForElements(queue, results, ReduceColumns<R, T, In, Out>{step});
}

// How many parts keep a GPU busy.
inline int64_t ReduceParts(int64_t outer, int64_t middle, int64_t inner) {
  constexpr int64_t kRowLength = 4096, kColumnLength = 16;  // the shortest parts worth it
  constexpr int64_t kWantedThreads = 1 << 17, kMostParts = 512;
  if (inner == 1) return CeilDiv(middle, kRowLength);
  const int64_t wanted = CeilDiv(kWantedThreads, outer * inner);
  const int64_t most = CeilDiv(middle, kColumnLength);
  return wanted < most ? (wanted < kMostParts ? wanted : kMostParts)
                       : (most < kMostParts ? most : kMostParts);
}

// x seen as [outer, middle, inner], reduced over the middle and multiplied by `factor`.
template <typename R, typename T>
Status ReduceMiddle(const Run& run, const T* x, int64_t outer, int64_t middle, int64_t inner,
                    T factor, T* out) {
  if (outer * inner == 0) return Status();
  const int64_t wanted = ReduceParts(outer, middle, inner);
  if (wanted <= 1) {
    return LaunchReduce(run.queue(),
                        ReduceStep<R, T, T, T>{x, out, outer, middle, inner, 1, middle, factor});
  }
  using Acc = typename R::Acc;
  const int64_t length = CeilDiv(middle, wanted), parts = CeilDiv(middle, length);
  Scratch partial;
  COX_CUDA_RETURN_IF_ERROR(
      partial.Allocate(run.stream(), static_cast<size_t>(outer * parts * inner) * sizeof(Acc)));
  Acc* sums = partial.data<Acc>();
  COX_CUDA_RETURN_IF_ERROR(LaunchReduce(
      run.queue(), ReduceStep<R, T, T, Acc>{x, sums, outer, middle, inner, parts, length, T{1}}));
  return LaunchReduce(run.queue(),
                      ReduceStep<R, T, Acc, T>{sums, out, outer, parts, inner, 1, parts, factor});
}

// `x` reduced over the dimensions whose flag is set; one flag for each dimension. Neighbouring
// dimensions that are reduced count as one; they are reduced one after the other, the last first.
template <typename R, typename T>
Status Reduce(const Run& run, const CoxTensor& x, const std::vector<bool>& flags, T factor,
              const CoxTensor& out) {
  struct Middle {
    int64_t outer, size, inner;
  };
  std::vector<Middle> middles;
  int64_t inner = 1;
  for (int end = x.rank; end > 0;) {
    if (!flags[end - 1]) {
      inner *= x.dims[--end];
      continue;
    }
    int begin = end;
    while (begin > 0 && flags[begin - 1]) --begin;
    const int64_t size = DimsProduct(x, begin, end);
    if (size != 1) middles.push_back({DimsProduct(x, 0, begin), size, inner});
    end = begin;
  }
  if (middles.empty()) return PassOn(run, x, out);
  const T* from = Data<T>(x);
  std::vector<Scratch> steps(middles.size());
  for (size_t i = 0; i < middles.size(); ++i) {
    const auto& [outer, size, rest] = middles[i];
    const bool last = i + 1 == middles.size();
    T* to = Data<T>(out);
    if (!last) {
      COX_CUDA_RETURN_IF_ERROR(
          steps[i].Allocate(run.stream(), static_cast<size_t>(outer * rest) * sizeof(T)));
      to = steps[i].template data<T>();
    }
    COX_CUDA_RETURN_IF_ERROR(
        (ReduceMiddle<R, T>(run, from, outer, size, rest, last ? factor : T{1}, to)));
    from = to;
  }
  return Status();
}

}  // namespace coxswain::cuda
