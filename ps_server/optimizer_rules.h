// The rules of optimizer.h and the row loop that runs them. Internal to optimizer*.cc.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ps_server/bf16.h"
#include "ps_server/multiversion.h"
#include "ps_server/optimizer.h"

namespace coxswain::optimizer_internal {

// Each rule changes (w, slot 0, slot 1) by g; slots that it does not have are ignored. A rule with
// kPerRow is none of elements, see UpdateRow.

template <typename T>
struct AddRule {
  static constexpr bool kPerRow = false;
  static constexpr int kSlots = 0;
  COX_ALWAYS_INLINE void operator()(T v, T& w) const { w += v; }
};

template <typename T>
struct SgdRule {
  static constexpr bool kPerRow = false;
  static constexpr int kSlots = 0;
  T lr, l2;
  COX_ALWAYS_INLINE void operator()(T g, T& w) const { w -= lr * (g + l2 * w); }
};

template <typename T>
struct MomentumRule {
  static constexpr bool kPerRow = false;
  static constexpr int kSlots = 1;
  T lr, l2, mu, keep_g, keep_a;  // the step is lr * (keep_g * g + keep_a * a)
  COX_ALWAYS_INLINE void operator()(T g, T& w, T& a) const {
    g += l2 * w;
    a = mu * a + g;
    w -= lr * (keep_g * g + keep_a * a);
  }
};

template <typename T>
struct AdagradRule {
  static constexpr bool kPerRow = false;
  static constexpr int kSlots = 1;
  T lr, l2, eps;
  COX_ALWAYS_INLINE void operator()(T g, T& w, T& a) const {
    g += l2 * w;
    a += g * g;
    w -= lr * g / (std::sqrt(a) + eps);
  }
};

template <typename T>
struct RowwiseAdagradRule {
  static constexpr bool kPerRow = true;
  static constexpr int kSlots = 1;
  T lr, l2, eps;
};

template <typename T>
struct AdamRule {
  static constexpr bool kPerRow = false;
  static constexpr int kSlots = 2;
  T lr_t, l2, b1, b2, one_minus_b1, one_minus_b2, eps;  // lr_t: with both bias corrections
  COX_ALWAYS_INLINE void operator()(T g, T& w, T& m, T& v) const {
    // Where there is no gradient moments fall for ever. They would end as denormals: slow, and too
    // coarse to fall any further. Written so that GCC makes vectors of it.
    constexpr T kTiny = std::numeric_limits<T>::min(), kStill = kTiny * (1 << 26);
    g += l2 * w;
    T next_m = b1 * m + one_minus_b1 * g, next_v = b2 * v + one_minus_b2 * (g * g);
    next_m = std::abs(next_m) < kStill ? T{0} : next_m;
    const T least_v = next_m == 0 ? kTiny : T{0};
    next_v = next_v < least_v ? T{0} : next_v;
    m = next_m;
    v = next_v;
    w -= lr_t * next_m / (std::sqrt(next_v) + eps);
  }
};

// A NaN in z stays one in w: "not greater" would turn it into a silent zero.
template <typename T>
COX_ALWAYS_INLINE T FtrlWeight(T z, T quadratic, T l1) {
  const T moved = (std::copysign(l1, z) - z) / quadratic;
  return std::abs(z) <= l1 ? T{0} : moved;
}

template <typename T>
struct FtrlRule {  // learning_rate_power -0.5
  static constexpr bool kPerRow = false;
  static constexpr int kSlots = 2;
  T inverse_lr, l1, twice_l2;
  COX_ALWAYS_INLINE void operator()(T g, T& w, T& n, T& z) const {
    const T next = n + g * g;
    const T root = std::sqrt(next);
    z += g - (root - std::sqrt(n)) * inverse_lr * w;
    n = next;
    w = FtrlWeight(z, root * inverse_lr + twice_l2, l1);
  }
};

template <typename T>
struct FtrlPowerRule {  // any other power; pow makes it several times slower
  static constexpr bool kPerRow = false;
  static constexpr int kSlots = 2;
  T inverse_lr, l1, twice_l2, minus_power;
  COX_ALWAYS_INLINE void operator()(T g, T& w, T& n, T& z) const {
    const T next = n + g * g;
    const T root = std::pow(next, minus_power);
    z += g - (root - std::pow(n, minus_power)) * inverse_lr * w;
    n = next;
    w = FtrlWeight(z, root * inverse_lr + twice_l2, l1);
  }
};

template <typename T, typename Rule>
COX_ALWAYS_INLINE void UpdateElements(const Rule& rule, T* __restrict w, T* __restrict a,
                                      T* __restrict b, int64_t width, const T* __restrict g) {
  if constexpr (Rule::kSlots == 0) {
    COX_VECTORIZE_WHOLE
    for (int64_t e = 0; e < width; ++e) rule(g[e], w[e]);
  } else if constexpr (Rule::kSlots == 1) {
    COX_VECTORIZE_WHOLE
    for (int64_t e = 0; e < width; ++e) rule(g[e], w[e], a[e]);
  } else {
    COX_VECTORIZE_WHOLE
    for (int64_t e = 0; e < width; ++e) rule(g[e], w[e], a[e], b[e]);
  }
}

// The same of N elements with weights in bf16.
template <int64_t N, bool kStochastic, typename Rule>
COX_ALWAYS_INLINE void UpdateBf16Block(const Rule& rule, uint32_t key, uint32_t first, uint16_t* w,
                                       float* a, float* b, const float* g) {
  alignas(64) float wide[N];
  WidenBlock<N>(w, wide);
  UpdateElements(rule, static_cast<float*>(wide), a, b, N, g);
  if constexpr (kStochastic) {
    StochasticBlock<N>(wide, key, first, w);
  } else {
    NearestBlock<N>(wide, w);
  }
}

// The same of a row with weights in bf16: in blocks, and the last elements one by one.
template <bool kStochastic, typename Rule>
COX_ALWAYS_INLINE void UpdateBf16Elements(const Rule& rule, uint32_t key, uint16_t* w, float* a,
                                          float* b, int64_t width, const float* g) {
  const auto slot = [](float* values, int64_t at, bool has) { return has ? values + at : values; };
  constexpr bool kHasA = Rule::kSlots > 0, kHasB = Rule::kSlots > 1;
  int64_t at = 0;
  for (; at + kBf16Block <= width; at += kBf16Block) {
    UpdateBf16Block<kBf16Block, kStochastic>(rule, key, static_cast<uint32_t>(at), w + at,
                                             slot(a, at, kHasA), slot(b, at, kHasB), g + at);
  }
  if (at + 8 <= width) {
    UpdateBf16Block<8, kStochastic>(rule, key, static_cast<uint32_t>(at), w + at,
                                    slot(a, at, kHasA), slot(b, at, kHasB), g + at);
    at += 8;
  }
  for (; at < width; ++at) {
    float wide = WidenBf16({w[at]});
    UpdateElements(rule, &wide, slot(a, at, kHasA), slot(b, at, kHasB), int64_t{1}, g + at);
    w[at] = (kStochastic ? StochasticBf16(wide, key, static_cast<uint32_t>(at)) : NearestBf16(wide))
                .bits;
  }
}

// sums[e] += (g[e] + l2 w[e])^2.
template <typename T>
COX_ALWAYS_INLINE void AddSquares(const T* __restrict g, T l2, const T* __restrict w, int64_t n,
                                  T* __restrict sums) {
  COX_VECTORIZE_WHOLE
  for (int64_t e = 0; e < n; ++e) {
    const T v = g[e] + l2 * w[e];
    sums[e] += v * v;
  }
}

// The mean of (g + l2 w)^2, in an order of summation that no instruction set changes.
template <typename T, typename W>
COX_ALWAYS_INLINE T MeanSquare(const T* g, T l2, const W* w, int64_t width) {
  constexpr int64_t kLanes = kBf16Block;
  alignas(64) T sums[kLanes] = {};
  int64_t at = 0;
  for (; at + kLanes <= width; at += kLanes) {
    if constexpr (std::is_same_v<W, T>) {
      AddSquares(g + at, l2, w + at, kLanes, sums);
    } else {
      alignas(64) float wide[kLanes];
      WidenBlock<kLanes>(reinterpret_cast<const uint16_t*>(w + at), wide);
      AddSquares(g + at, l2, static_cast<const float*>(wide), kLanes, sums);
    }
  }
  for (int64_t e = 0; at + e < width; ++e) {
    T wide;
    if constexpr (std::is_same_v<W, T>) {
      wide = w[at + e];
    } else {
      wide = WidenBf16(w[at + e]);
    }
    AddSquares(g + at + e, l2, &wide, 1, sums + e);
  }
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    COX_VECTORIZE_WHOLE
    for (int64_t e = 0; e < half; ++e) sums[e] += sums[e + half];
  }
  return sums[0] / static_cast<T>(width);
}

template <typename T, typename W, typename Rule>
COX_ALWAYS_INLINE void UpdateElementsOf(const Rule& rule, const RowBlock& block, int64_t row,
                                        int64_t width, const T* g) {
  W* w = reinterpret_cast<W*>(block.parts[0].Row(row));
  T* a = Rule::kSlots > 0 ? reinterpret_cast<T*>(block.parts[1].Row(row)) : nullptr;
  T* b = Rule::kSlots > 1 ? reinterpret_cast<T*>(block.parts[2].Row(row)) : nullptr;
  if constexpr (std::is_same_v<W, T>) {
    UpdateElements(rule, w, a, b, width, g);
  } else {
    const Bf16Rounding& rounding = block.rounding;
    uint16_t* bits = reinterpret_cast<uint16_t*>(w);
    if (!rounding.stochastic) {
      UpdateBf16Elements<false>(rule, 0, bits, a, b, width, g);
      return;
    }
    int64_t name = rounding.first + row * rounding.step;
    if (rounding.keys.data != nullptr) std::memcpy(&name, rounding.keys.Row(row), sizeof(name));
    const uint32_t key = RoundingKey(rounding, block.number, name);
    UpdateBf16Elements<true>(rule, key, bits, a, b, width, g);
  }
}

template <typename T, typename W, typename Rule>
COX_ALWAYS_INLINE void UpdateRow(const Rule& rule, const RowBlock& block, int64_t row,
                                 int64_t width, const T* g) {
  if constexpr (Rule::kPerRow) {
    const W* w = reinterpret_cast<const W*>(block.parts[0].Row(row));
    T* a = reinterpret_cast<T*>(block.parts[1].Row(row));
    *a += MeanSquare(g, rule.l2, w, width);
    const SgdRule<T> step{rule.lr / (std::sqrt(*a) + rule.eps), rule.l2};
    UpdateElementsOf<T, W>(step, block, row, width, g);
  } else {
    UpdateElementsOf<T, W>(rule, block, row, width, g);
  }
  if (block.touched.data != nullptr) {
    std::memcpy(block.touched.Row(row), &block.number, sizeof(block.number));
  }
}

template <typename T, typename W, typename Rule>
COX_ALWAYS_INLINE void PrefetchRow(const RowBlock& block, int64_t row, int64_t width) {
  constexpr int64_t kLine = 64;
  for (int p = 0; p <= Rule::kSlots; ++p) {
    const char* start = block.parts[static_cast<size_t>(p)].Row(row);
    int64_t bytes = width * static_cast<int64_t>(p == 0 ? sizeof(W) : sizeof(T));
    if (p > 0 && Rule::kPerRow) bytes = 1;
    // The hardware follows a row by itself once it has begun.
    bytes = std::min<int64_t>(bytes, 16 * kLine);
    for (int64_t b = 0; b < bytes; b += kLine) __builtin_prefetch(start + b, 1, 3);
  }
  if (block.touched.data != nullptr) __builtin_prefetch(block.touched.Row(row), 1, 3);
}

// How many rows ahead memory is asked for: enough to cover its latency at 4 to 8 lines a row.
constexpr int64_t kPrefetchAhead = 8;

template <typename T, typename W, typename Rule>
COX_ALWAYS_INLINE void UpdateRows(const Rule& rule, const RowBlock& block, const int64_t* ids,
                                  int64_t n, const T* gradient, int64_t width) {
  if (ids == nullptr) {
    for (int64_t i = 0; i < n; ++i) {
      UpdateRow<T, W>(rule, block, i, width, gradient + i * width);
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    if (i + kPrefetchAhead < n) PrefetchRow<T, W, Rule>(block, ids[i + kPrefetchAhead], width);
    UpdateRow<T, W>(rule, block, ids[i], width, gradient + i * width);
  }
}

// Whether the row has nothing that a gradient of zero would change: it is none, or no update has
// ever changed it, so that its moments are zero. (With l2 the gradient is not zero.)
template <typename Rule>
COX_ALWAYS_INLINE bool IsAtRest(const Rule& rule, const RowBlock& block, int64_t row) {
  int32_t count = 1;
  if (block.counts.data != nullptr) std::memcpy(&count, block.counts.Row(row), sizeof(count));
  if (count == 0) return true;
  if (block.touched.data == nullptr || rule.l2 != 0) return false;
  int64_t touched;
  std::memcpy(&touched, block.touched.Row(row), sizeof(touched));
  return touched == 0;
}

// What Optimizer::ApplyToAll is told.
template <typename T>
struct Sweep {
  int64_t rows = 0;
  const RowGradient<T>* named = nullptr;  // ascending, no row twice
  int64_t n = 0;
  const T* zeros = nullptr;  // a row of them
};

template <typename T, typename W, typename Rule>
COX_ALWAYS_INLINE void UpdateRows(const Rule& rule, const RowBlock& block, const Sweep<T>& sweep,
                                  int64_t width) {
  int64_t next = 0;
  for (int64_t row = 0; row < sweep.rows; ++row) {
    if (next < sweep.n && sweep.named[next].row == row) {
      UpdateRow<T, W>(rule, block, row, width, sweep.named[next++].values);
    } else if (!IsAtRest(rule, block, row)) {
      UpdateRow<T, W>(rule, block, row, width, sweep.zeros);
    }
  }
}

// The common widths as constants: the row loop unrolls and loses its prologue and tail. `rows`:
// which, and their gradients, as UpdateRows takes them.
template <typename T, typename W, typename Rule, typename... Rows>
COX_ALWAYS_INLINE void UpdateRowsOfWidth(const Rule& rule, const RowBlock& block,
                                         const Rows&... rows) {
  switch (block.width) {
    case 8:
      return UpdateRows<T, W>(rule, block, rows..., 8);
    case 16:
      return UpdateRows<T, W>(rule, block, rows..., 16);
    case 32:
      return UpdateRows<T, W>(rule, block, rows..., 32);
    case 64:
      return UpdateRows<T, W>(rule, block, rows..., 64);
    default:
      return UpdateRows<T, W>(rule, block, rows..., block.width);
  }
}

template <typename T, typename Rule, typename... Rows>
COX_ALWAYS_INLINE void UpdateRowsOfType(const Rule& rule, const RowBlock& block,
                                        const Rows&... rows) {
  if constexpr (std::is_same_v<T, float>) {
    if (block.weights == DType::kBF16) {
      return UpdateRowsOfWidth<T, BFloat16>(rule, block, rows...);
    }
  }
  UpdateRowsOfWidth<T, T>(rule, block, rows...);
}

}  // namespace coxswain::optimizer_internal
