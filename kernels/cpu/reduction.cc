#include "kernels/cpu/reduction.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/simd.h"
#include "runtime/base/status.h"

namespace coxswain::kernels {
namespace {

// Sums in double (integers: in the unsigned type, which wraps); a sum of many floats stays exact to
// their own precision, and converting costs less than loading.
template <typename T>
struct SumOp {
  using Acc = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  static constexpr Acc Start() { return 0; }
  static COX_SIMD_INLINE Acc Join(Acc a, Acc b) { return a + b; }
};
template <typename T>
struct MaxOp {
  using Acc = T;
  static constexpr Acc Start() { return -std::numeric_limits<T>::infinity(); }
  static COX_SIMD_INLINE Acc Join(Acc a, Acc b) { return ((b > a) | (b != b)) ? b : a; }
};

// One row of n values. In independent lanes: one sum would be a chain of dependent additions, which
// compilers may not reorder.
template <typename Op, typename T>
typename Op::Acc ReduceRow(const T* x, int64_t n) {
  using Acc = typename Op::Acc;
  constexpr int kLanes = 32;
  Acc total = Op::Start();
  if (n < kLanes) {
    for (int64_t i = 0; i < n; ++i) total = Op::Join(total, static_cast<Acc>(x[i]));
    return total;
  }
  RunSimd([&]() COX_SIMD_BODY {
    Acc lanes[kLanes];
    for (int j = 0; j < kLanes; ++j) lanes[j] = static_cast<Acc>(x[j]);
    int64_t i = kLanes;
    for (; i + kLanes <= n; i += kLanes) {
      COX_SIMD_LOOP
      for (int j = 0; j < kLanes; ++j) lanes[j] = Op::Join(lanes[j], static_cast<Acc>(x[i + j]));
    }
    for (; i < n; ++i) lanes[0] = Op::Join(lanes[0], static_cast<Acc>(x[i]));
    for (int j = 0; j < kLanes; ++j) total = Op::Join(total, lanes[j]);
  });
  return total;
}

// Columns [begin, end) of a matrix of `rows` rows, `stride` apart.
template <typename Op, typename T>
void ReduceColumns(const T* x, int64_t rows, int64_t stride, int64_t begin, int64_t end, T* out) {
  using Acc = typename Op::Acc;
  constexpr int64_t kBlock = 256;
  Acc acc[kBlock];
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t n = std::min(kBlock, end - at);
    RunSimd([&]() COX_SIMD_BODY {
      for (int64_t j = 0; j < n; ++j) acc[j] = Op::Start();
      for (int64_t r = 0; r < rows; ++r) {
        const T* row = x + r * stride + at;
        COX_SIMD_LOOP
        for (int64_t j = 0; j < n; ++j) acc[j] = Op::Join(acc[j], static_cast<Acc>(row[j]));
      }
      for (int64_t j = 0; j < n; ++j) out[at + j] = static_cast<T>(acc[j]);
    });
  }
}

// A long single row, in chunks of fixed size, so that the result is the same for any number of
// threads.
template <typename Op, typename T>
typename Op::Acc ReduceAll(const T* x, int64_t n, env::ComputePool* pool) {
  constexpr int64_t kChunk = 65536;
  const int64_t chunks = (n + kChunk - 1) / kChunk;
  std::vector<typename Op::Acc> parts(chunks);
  pool->ParallelFor(chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      parts[c] = ReduceRow<Op, T>(x + c * kChunk, std::min(kChunk, n - c * kChunk));
    }
  });
  typename Op::Acc total = Op::Start();
  for (const auto& part : parts) total = Op::Join(total, part);
  return total;
}

// x seen as [outer, middle, inner], reduced over the middle.
template <typename Op, typename T>
void ReduceMiddle(const T* x, int64_t outer, int64_t middle, int64_t inner, T* out,
                  env::ComputePool* pool) {
  if (inner == 1 && outer == 1) {
    out[0] = static_cast<T>(ReduceAll<Op, T>(x, middle, pool));
  } else if (inner == 1) {
    const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, middle));
    pool->ParallelFor(outer, grain, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        out[o] = static_cast<T>(ReduceRow<Op, T>(x + o * middle, middle));
      }
    });
  } else if (outer == 1) {
    const int64_t grain = std::max<int64_t>(64, kElementGrain / std::max<int64_t>(1, middle));
    pool->ParallelFor(inner, grain, [&](int64_t begin, int64_t end) {
      ReduceColumns<Op, T>(x, middle, inner, begin, end, out);
    });
  } else {
    const int64_t grain =
        std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, middle * inner));
    pool->ParallelFor(outer, grain, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        ReduceColumns<Op, T>(x + o * middle * inner, middle, inner, 0, inner, out + o * inner);
      }
    });
  }
}

// Neighbouring dimensions that are reduced count as one. They are reduced one after the other, the
// last first.
template <typename Op, typename T>
Tensor ReduceRuns(const Tensor& x, const AxisMask& flags, env::ComputePool* pool) {
  Tensor value = x;
  Shape shape = x.shape();
  int end = shape.rank();
  while (end > 0) {
    if (!flags[end - 1]) {
      --end;
      continue;
    }
    int begin = end;
    while (begin > 0 && flags[begin - 1]) --begin;
    const int64_t outer = DimsProduct(shape, 0, begin), middle = DimsProduct(shape, begin, end),
                  inner = DimsProduct(shape, end, shape.rank());
    for (int i = begin; i < end; ++i) shape.set_dim(i, 1);
    if (middle != 1) {
      Tensor reduced(value.dtype(), shape);
      if (outer * inner > 0) {
        ReduceMiddle<Op, T>(value.data<T>(), outer, middle, inner, reduced.mutable_data<T>(), pool);
      }
      value = std::move(reduced);
    }
    end = begin;
  }
  return value.Reshaped(shape);
}

}  // namespace

absl::StatusOr<Tensor> Reduce(ReduceKind kind, const Tensor& x, const AxisMask& flags,
                              env::ComputePool* pool) {
  Tensor result;
  if (kind == ReduceKind::kSum) {
    RETURN_IF_ERROR((DispatchAmong<float, double, int64_t>(x.dtype(), [&](auto t) {
      result = ReduceRuns<SumOp<decltype(t)>, decltype(t)>(x, flags, pool);
      return absl::OkStatus();
    })));
  } else {
    RETURN_IF_ERROR(DispatchFloat(x.dtype(), [&](auto t) {
      result = ReduceRuns<MaxOp<decltype(t)>, decltype(t)>(x, flags, pool);
      return absl::OkStatus();
    }));
  }
  return result;
}

absl::StatusOr<AxisMask> BroadcastAxes(const Shape& from, const Shape& to) {
  const int extra = from.rank() - to.rank();
  bool fits = extra >= 0;
  AxisMask flags(from.rank(), true);
  for (int i = 0; fits && i < to.rank(); ++i) {
    flags[extra + i] = to.dim(i) == 1 && from.dim(extra + i) != 1;
    fits = flags[extra + i] || to.dim(i) == from.dim(extra + i);
  }
  if (fits) return flags;
  return absl::InvalidArgumentError(
      absl::StrCat("wanted shapes of which the second broadcasts to the ", "first, found ",
                   from.ToString(), " and ", to.ToString()));
}

}  // namespace coxswain::kernels
