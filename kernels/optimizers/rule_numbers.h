// The numbers of the optimizers' rules, once for the CPU and for GPUs: an optimizer's Rule<float>
// is brought to a GPU as it lies in memory, and the rule there (kernels/cuda/optimizer_rules.h)
// reads them. Both have these structs as their base, so there is one order. What a Rule has beside
// them comes behind and is not read there. No includes: nvcc compiles this, too.
#pragma once

namespace coxswain::kernels {

template <typename T>
struct SgdNumbers {
  T lr, l2;
};

template <typename T>
struct MomentumNumbers {
  T lr, l2, mu, keep_g, keep_a;  // the step is lr * (keep_g * g + keep_a * a)
};

template <typename T>
struct AdagradNumbers {
  T lr, l2, eps;
};

template <typename T>
struct RowwiseAdagradNumbers {
  T lr, l2, eps;
};

template <typename T>
struct RmspropNumbers {
  T lr, l2, eps, rho;
};

template <typename T>
struct AdamNumbers {
  T lr_t, l2, b1, b2, one_minus_b1, one_minus_b2, eps;  // lr_t: with both bias corrections
};

template <typename T>
struct AdamWNumbers {
  AdamNumbers<T> adam;  // without l2
  T decay;              // of a weight with an update: the rate times weight_decay
};

template <typename T>
struct FtrlNumbers {
  T inverse_lr, l1, twice_l2, minus_power;
};

}  // namespace coxswain::kernels
