// The loops over rows and their elements that run the rules of kernels/optimizers. Internal to
// optimizer*.cc.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ps_server/bf16.h"
#include "ps_server/optimizer_loops.h"
#include "ps_server/row_block.h"
#include "runtime/base/multiversion.h"

namespace coxswain::ps::optimizer_internal {

// A rule that adds the gradient: an update without an optimizer.
template <typename T>
struct AddRule {
  COX_ALWAYS_INLINE void operator()(T v, T& w) const { w += v; }
};

// The number of slots that a rule changes beside the weight.
template <typename Rule, typename T>
constexpr int kSlots = kPerRow<Rule, T>                                  ? 1
                       : std::is_invocable_v<const Rule&, T, T&>         ? 0
                       : std::is_invocable_v<const Rule&, T, T&, T&>     ? 1
                       : std::is_invocable_v<const Rule&, T, T&, T&, T&> ? 2
                                                                         : -1;

template <typename T, typename Rule>
COX_ALWAYS_INLINE void UpdateElements(const Rule& rule, T* __restrict w, T* __restrict a,
                                      T* __restrict b, int64_t width, const T* __restrict g) {
  static_assert(kSlots<Rule, T> >= 0);
  if constexpr (kSlots<Rule, T> == 0) {
    COX_VECTORIZE_WHOLE
    for (int64_t e = 0; e < width; ++e) rule(g[e], w[e]);
  } else if constexpr (kSlots<Rule, T> == 1) {
    COX_VECTORIZE_WHOLE
    for (int64_t e = 0; e < width; ++e) rule(g[e], w[e], a[e]);
  } else {
    COX_VECTORIZE_WHOLE
    for (int64_t e = 0; e < width; ++e) rule(g[e], w[e], a[e], b[e]);
  }
}

// The same for N elements with weights in bf16.
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

// The same for a row with weights in bf16: in blocks, and the last elements one by one.
template <bool kStochastic, typename Rule>
COX_ALWAYS_INLINE void UpdateBf16Elements(const Rule& rule, uint32_t key, uint16_t* w, float* a,
                                          float* b, int64_t width, const float* g) {
  const auto slot = [](float* values, int64_t at, bool has) { return has ? values + at : values; };
  constexpr bool kHasA = kSlots < Rule, float >> 0, kHasB = kSlots < Rule, float >> 1;
  int64_t at = 0;
  for (; at + ps::kBf16Block <= width; at += ps::kBf16Block) {
    UpdateBf16Block<ps::kBf16Block, kStochastic>(rule, key, static_cast<uint32_t>(at), w + at,
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

// The mean of (g + l2 w)^2, in an order of summation that does not depend on the instruction set.
template <typename T, typename W>
COX_ALWAYS_INLINE T MeanSquare(const T* g, T l2, const W* w, int64_t width) {
  constexpr int64_t kLanes = ps::kBf16Block;
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
  T* a = kSlots<Rule, T> > 0 ? reinterpret_cast<T*>(block.parts[1].Row(row)) : nullptr;
  T* b = kSlots<Rule, T> > 1 ? reinterpret_cast<T*>(block.parts[2].Row(row)) : nullptr;
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

// Returns whether the row had changed since block.since.
template <typename T, typename W, typename Rule>
COX_ALWAYS_INLINE bool UpdateRow(const Rule& rule, const RowBlock& block, int64_t row,
                                 int64_t width, const T* g) {
  if constexpr (kPerRow<Rule, T>) {
    const W* w = reinterpret_cast<const W*>(block.parts[0].Row(row));
    T* a = reinterpret_cast<T*>(block.parts[1].Row(row));
    const auto elements = rule.OfRow(MeanSquare(g, rule.l2, w, width), *a);
    UpdateElementsOf<T, W>(elements, block, row, width, g);
  } else {
    UpdateElementsOf<T, W>(rule, block, row, width, g);
  }
  return block.touched.data != nullptr &&
         TouchRow(block.touched.Row(row), block.number, block.since);
}

template <typename T, typename W, typename Rule>
COX_ALWAYS_INLINE void PrefetchRow(const RowBlock& block, int64_t row, int64_t width) {
  constexpr int64_t kLine = 64;
  for (int p = 0; p <= kSlots<Rule, T>; ++p) {
    const char* start = block.parts[static_cast<size_t>(p)].Row(row);
    int64_t bytes = width * static_cast<int64_t>(p == 0 ? sizeof(W) : sizeof(T));
    if (p > 0 && kPerRow<Rule, T>) bytes = 1;
    // The hardware prefetches the rest of a row once its beginning was read.
    bytes = std::min<int64_t>(bytes, 16 * kLine);
    for (int64_t b = 0; b < bytes; b += kLine) __builtin_prefetch(start + b, 1, 3);
  }
  if (block.touched.data != nullptr) __builtin_prefetch(block.touched.Row(row), 1, 3);
}

// How many rows ahead to prefetch: enough to cover the memory's latency at 4 to 8 cache lines per
// row.
constexpr int64_t kPrefetchAhead = 8;

template <typename T, typename W, typename Rule>
COX_ALWAYS_INLINE int64_t UpdateRows(const Rule& rule, const RowBlock& block, const int64_t* ids,
                                     int64_t n, const T* gradient, int64_t width) {
  int64_t changed = 0;
  if (ids == nullptr) {
    for (int64_t i = 0; i < n; ++i) {
      changed += UpdateRow<T, W>(rule, block, i, width, gradient + i * width);
    }
    return changed;
  }
  for (int64_t i = 0; i < n; ++i) {
    if (i + kPrefetchAhead < n) PrefetchRow<T, W, Rule>(block, ids[i + kPrefetchAhead], width);
    changed += UpdateRow<T, W>(rule, block, ids[i], width, gradient + i * width);
  }
  return changed;
}

// Whether a gradient of zero would not change the row: it is a free place, or no update has ever
// changed it, so that its moments are zero. (With l2 the gradient is not zero.)
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

template <typename T, typename W, typename Rule>
COX_ALWAYS_INLINE int64_t UpdateRows(const Rule& rule, const RowBlock& block, const Sweep<T>& sweep,
                                     int64_t width) {
  int64_t next = 0, changed = 0;
  for (int64_t row = 0; row < sweep.rows; ++row) {
    if (next < sweep.n && sweep.named[next].row == row) {
      changed += UpdateRow<T, W>(rule, block, row, width, sweep.named[next++].values);
    } else if (!IsAtRest(rule, block, row)) {
      UpdateRow<T, W>(rule, block, row, width, sweep.zeros);
    }
  }
  return changed;
}

// Dispatches on common widths as constants, so that the row loop is unrolled without prologue and
// tail. `rows`: the rows and their gradients, as UpdateRows takes them.
template <typename T, typename W, typename Rule, typename... Rows>
COX_ALWAYS_INLINE int64_t UpdateRowsOfWidth(const Rule& rule, const RowBlock& block,
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
COX_ALWAYS_INLINE int64_t UpdateRowsOfType(const Rule& rule, const RowBlock& block,
                                           const Rows&... rows) {
  if constexpr (std::is_same_v<T, float>) {
    if (block.weights == DType::kBF16) {
      return UpdateRowsOfWidth<T, BFloat16>(rule, block, rows...);
    }
  }
  return UpdateRowsOfWidth<T, T>(rule, block, rows...);
}

struct TakesAnyRule {
  template <typename Rule>
  void operator()(const Rule&) const;
};

// An optimizer may have several rules, of which its parameters choose one: there is a loop for
// each.
template <typename T, typename Rule, typename... Rows>
COX_ALWAYS_INLINE int64_t UpdateRowsByRule(const Rule& rule, const RowBlock& block,
                                           const Rows&... rows) {
  if constexpr (requires { rule.Choose(TakesAnyRule{}); }) {
    int64_t changed = 0;
    rule.Choose([&](const auto& chosen) __attribute__((always_inline)) {
      changed = UpdateRowsOfType<T>(chosen, block, rows...);
    });
    return changed;
  } else {
    return UpdateRowsOfType<T>(rule, block, rows...);
  }
}

}  // namespace coxswain::ps::optimizer_internal
