// Learning rate schedules. `step` is the number of updates with a gradient that the shard has
// applied before, like TF's optimizer.iterations. The optimizer's learning_rate is multiplied by a
// factor, as in Keras' optimizers.schedules:
//
//   constant            1
//   piecewise_constant  1 while step <= boundaries[0]; factors[i] while boundaries[i] < step <=
//                       boundaries[i + 1], or for ever      (PiecewiseConstantDecay)
//   exponential_decay   decay_rate ^ (step / decay_steps); staircase: the exponent cut to whole
//                       numbers                              (ExponentialDecay)
//   cosine_decay        (1 - e) (1 + cos(pi min(step / decay_steps, 1))) / 2 + e, with
//                       e = end_factor                       (CosineDecay)
//   linear_decay        (1 - e) (1 - min(step / decay_steps, 1)) + e
//                                                            (PolynomialDecay with power 1)
//
// Warm-up, with any kind: while step < warmup_steps the factor is
// warmup_factor + (1 - warmup_factor) step / warmup_steps; after it the kind begins with step 0.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "protos/variable.pb.h"

namespace coxswain::kernels {

class LearningRateSchedule {
 public:
  LearningRateSchedule() = default;  // constant

  // Errors: InvalidArgument for an unknown kind, or a field that is out of range or missing.
  static absl::StatusOr<LearningRateSchedule> Create(const proto::LearningRateSchedule& spec);

  bool constant() const { return spec_.kind().empty() && spec_.warmup_steps() == 0; }
  // >= 0 and finite. `step` >= 0.
  double Factor(int64_t step) const;

 private:
  proto::LearningRateSchedule spec_;
};

}  // namespace coxswain::kernels
