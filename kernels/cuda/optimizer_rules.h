// The rules of kernels/optimizers for rows in a device's memory, in f32.
//
// A rule has the numbers of the optimizer's Rule<float>, which both take from rule_numbers.h, and
// computes what that does in the same order: with additions and products that are each rounded, the
// bits are the same.
// So a file that includes this is compiled without contraction to multiply-adds (CMakeLists.txt).
// A rule changes the weight and kSlots slots by the gradient g; one whose slot has a value for a
// row (kPerRow) makes the rule for the row's elements of it. The optimizers' files have formulas.
#pragma once

#include <float.h>

#include "kernels/cuda/math.h"
#include "kernels/optimizers/rule_numbers.h"

namespace coxswain::cuda {

struct SgdRule : kernels::SgdNumbers<float> {
  static constexpr int kSlots = 0;
  static constexpr bool kPerRow = false;

  COX_DEVICE void operator()(float g, float& w) const { w -= lr * (g + l2 * w); }
};

struct MomentumRule : kernels::MomentumNumbers<float> {
  static constexpr int kSlots = 1;
  static constexpr bool kPerRow = false;

  COX_DEVICE void operator()(float g, float& w, float& a) const {
    g += l2 * w;
    a = mu * a + g;
    w -= lr * (keep_g * g + keep_a * a);
  }
};

struct AdagradRule : kernels::AdagradNumbers<float> {
  static constexpr int kSlots = 1;
  static constexpr bool kPerRow = false;

  COX_DEVICE void operator()(float g, float& w, float& a) const {
    g += l2 * w;
    a += g * g;
    w -= lr * g / (Sqrt(a) + eps);
  }
};

struct RowwiseAdagradRule : kernels::RowwiseAdagradNumbers<float> {
  static constexpr int kSlots = 1;
  static constexpr bool kPerRow = true;

  // `a` is the slot of the row after the update.
  COX_DEVICE SgdRule OfRow(float a) const { return {{.lr = lr / (Sqrt(a) + eps), .l2 = l2}}; }
};

struct RmspropRule : kernels::RmspropNumbers<float> {
  static constexpr int kSlots = 1;
  static constexpr bool kPerRow = false;

  COX_DEVICE void operator()(float g, float& w, float& v) const {
    g += l2 * w;
    v = rho * v + (1.0f - rho) * g * g;
    w -= lr * g / (Sqrt(v) + eps);
  }
};

struct LazyAdamRule : kernels::AdamNumbers<float> {
  static constexpr int kSlots = 2;
  static constexpr bool kPerRow = false;

  COX_DEVICE void operator()(float g, float& w, float& m, float& v) const {
    constexpr float kTiny = FLT_MIN, kStill = kTiny * (1 << 26);
    g += l2 * w;
    float next_m = b1 * m + one_minus_b1 * g, next_v = b2 * v + one_minus_b2 * (g * g);
    next_m = fabsf(next_m) < kStill ? 0.0f : next_m;
    const float least_v = next_m == 0 ? kTiny : 0.0f;
    next_v = next_v < least_v ? 0.0f : next_v;
    m = next_m;
    v = next_v;
    w -= lr_t * next_m / (Sqrt(next_v) + eps);
  }
};

struct AdamWRule : kernels::AdamWNumbers<float> {
  static constexpr int kSlots = 2;
  static constexpr bool kPerRow = false;

  COX_DEVICE void operator()(float g, float& w, float& m, float& v) const {
    const float lost = decay * w;
    LazyAdamRule{adam}(g, w, m, v);
    w -= lost;
  }
};

struct FtrlRule : kernels::FtrlNumbers<float> {
  static constexpr int kSlots = 2;
  static constexpr bool kPerRow = false;

  COX_DEVICE float Power(float n) const {
    return minus_power == 0.5f ? Sqrt(n) : powf(n, minus_power);
  }
  COX_DEVICE void operator()(float g, float& w, float& n, float& z) const {
    if (fabsf(inverse_lr) == Infinity<float>()) return;  // a rate of 0: the row stays as it is
    const float next = n + g * g;
    const float root = Power(next);
    z += g - (root - Power(n)) * inverse_lr * w;
    n = next;
    const float moved = (copysignf(l1, z) - z) / (root * inverse_lr + twice_l2);
    w = fabsf(z) <= l1 ? 0.0f : moved;  // a NaN in z stays one
  }
};

// X(kind, rule) for all optimizers but those that move all rows.
#define COX_CUDA_RULES(X)                  \
  X("sgd", SgdRule)                        \
  X("momentum", MomentumRule)              \
  X("adagrad", AdagradRule)                \
  X("rowwise_adagrad", RowwiseAdagradRule) \
  X("rmsprop", RmspropRule)                \
  X("lazy_adam", LazyAdamRule)             \
  X("adamw", AdamWRule)                    \
  X("ftrl", FtrlRule)

}  // namespace coxswain::cuda
