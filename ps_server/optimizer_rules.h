// The element-wise rules of optimizer.h and the row loop that runs them. Internal to optimizer*.cc.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ps_server/multiversion.h"
#include "ps_server/optimizer.h"

namespace coxswain::optimizer_internal {

// Each rule changes (w, slot 0, slot 1) by g; slots that it does not have are ignored.

template <typename T>
struct SgdRule {
  static constexpr int kSlots = 0;
  T lr, l2;
  COX_ALWAYS_INLINE void operator()(T g, T& w) const { w -= lr * (g + l2 * w); }
};

template <typename T>
struct MomentumRule {
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
  static constexpr int kSlots = 1;
  T lr, l2, eps;
  COX_ALWAYS_INLINE void operator()(T g, T& w, T& a) const {
    g += l2 * w;
    a += g * g;
    w -= lr * g / (std::sqrt(a) + eps);
  }
};

template <typename T>
struct AdamRule {
  static constexpr int kSlots = 2;
  T lr_t, l2, b1, b2, one_minus_b1, one_minus_b2, eps;  // lr_t: with both bias corrections
  COX_ALWAYS_INLINE void operator()(T g, T& w, T& m, T& v) const {
    g += l2 * w;
    m = b1 * m + one_minus_b1 * g;
    v = b2 * v + one_minus_b2 * (g * g);
    w -= lr_t * m / (std::sqrt(v) + eps);
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
COX_ALWAYS_INLINE void UpdateRow(const Rule& rule, const RowBlock<T>& block, int64_t row,
                                 int64_t width, const T* __restrict g) {
  const int64_t at = row * block.stride;
  T* __restrict w = block.parts[0] + at;
  if constexpr (Rule::kSlots == 0) {
    COX_VECTORIZE_WHOLE
    for (int64_t e = 0; e < width; ++e) rule(g[e], w[e]);
  } else if constexpr (Rule::kSlots == 1) {
    T* __restrict a = block.parts[1] + at;
    COX_VECTORIZE_WHOLE
    for (int64_t e = 0; e < width; ++e) rule(g[e], w[e], a[e]);
  } else {
    T* __restrict a = block.parts[1] + at;
    T* __restrict b = block.parts[2] + at;
    COX_VECTORIZE_WHOLE
    for (int64_t e = 0; e < width; ++e) rule(g[e], w[e], a[e], b[e]);
  }
}

template <typename T, typename Rule>
COX_ALWAYS_INLINE void PrefetchRow(const RowBlock<T>& block, int64_t row, int64_t width) {
  constexpr int64_t kPerLine = 64 / sizeof(T);
  // The hardware follows a row by itself once it has begun.
  const int64_t span = std::min<int64_t>(width, 16 * kPerLine);
  for (int p = 0; p <= Rule::kSlots; ++p) {
    const T* start = block.parts[p] + row * block.stride;
    for (int64_t e = 0; e < span; e += kPerLine) __builtin_prefetch(start + e, 1, 3);
  }
}

// How many rows ahead memory is asked for: enough to cover its latency at 4 to 8 lines a row.
constexpr int64_t kPrefetchAhead = 8;

template <typename T, typename Rule>
COX_ALWAYS_INLINE void UpdateRows(const Rule& rule, const RowBlock<T>& block, const int64_t* ids,
                                  int64_t n, const T* gradient, int64_t width) {
  if (ids == nullptr) {
    for (int64_t i = 0; i < n; ++i) UpdateRow(rule, block, i, width, gradient + i * width);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    if (i + kPrefetchAhead < n) PrefetchRow<T, Rule>(block, ids[i + kPrefetchAhead], width);
    UpdateRow(rule, block, ids[i], width, gradient + i * width);
  }
}

// The common widths as constants: the row loop unrolls and loses its prologue and tail.
template <typename T, typename Rule>
COX_ALWAYS_INLINE void UpdateRowsOfWidth(const Rule& rule, const RowBlock<T>& block,
                                         const int64_t* ids, int64_t n, const T* gradient) {
  switch (block.width) {
    case 8:
      return UpdateRows(rule, block, ids, n, gradient, 8);
    case 16:
      return UpdateRows(rule, block, ids, n, gradient, 16);
    case 32:
      return UpdateRows(rule, block, ids, n, gradient, 32);
    case 64:
      return UpdateRows(rule, block, ids, n, gradient, 64);
    default:
      return UpdateRows(rule, block, ids, n, gradient, block.width);
  }
}

}  // namespace coxswain::optimizer_internal
