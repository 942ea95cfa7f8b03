// Optimizers, learning rates that change, and initializers. An optimizer is a struct of parameters,
// with a file of its own in kernels/optimizers, where its formula is. Defaults are those of a job
// (docs/job.md):
//
//   table.optimizer = cox::LazyAdam{.learning_rate = 0.01};
//   table.optimizer = cox::WithSchedule(cox::Adagrad{.epsilon = 1e-7}, cox::LinearDecay(10000));
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/optimizers/optimizer_list.h"
#include "protos/variable.pb.h"

namespace coxswain {

// The optimizer with a learning rate that changes, by the names of Keras' schedules; `factor`s are
// of the optimizer's learning rate. Formulas: ps_server/learning_rate.h.
inline proto::OptimizerSpec WithSchedule(proto::OptimizerSpec optimizer,
                                         proto::LearningRateSchedule schedule) {
  *optimizer.mutable_schedule() = std::move(schedule);
  return optimizer;
}

// factors[i] after step boundaries[i].
inline proto::LearningRateSchedule PiecewiseConstant(const std::vector<int64_t>& boundaries,
                                                     const std::vector<double>& factors) {
  proto::LearningRateSchedule s;
  s.set_kind("piecewise_constant");
  for (int64_t boundary : boundaries) s.add_boundaries(boundary);
  for (double factor : factors) s.add_factors(factor);
  return s;
}

inline proto::LearningRateSchedule ExponentialDecay(int64_t decay_steps, double decay_rate,
                                                    bool staircase = false) {
  proto::LearningRateSchedule s;
  s.set_kind("exponential_decay");
  s.set_decay_steps(decay_steps);
  s.set_decay_rate(decay_rate);
  s.set_staircase(staircase);
  return s;
}

inline proto::LearningRateSchedule CosineDecay(int64_t decay_steps, double end_factor = 0) {
  proto::LearningRateSchedule s;
  s.set_kind("cosine_decay");
  s.set_decay_steps(decay_steps);
  s.set_end_factor(end_factor);
  return s;
}

inline proto::LearningRateSchedule LinearDecay(int64_t decay_steps, double end_factor = 0) {
  proto::LearningRateSchedule s = CosineDecay(decay_steps, end_factor);
  s.set_kind("linear_decay");
  return s;
}

// Linear warm-up before the schedule.
inline proto::LearningRateSchedule WarmUp(int64_t steps, proto::LearningRateSchedule then = {},
                                          double factor = 0) {
  then.set_warmup_steps(steps);
  then.set_warmup_factor(factor);
  return then;
}

inline proto::InitializerSpec Zeros() {
  proto::InitializerSpec i;
  i.set_kind("zeros");
  return i;
}

inline proto::InitializerSpec NormalInit(double stddev, uint64_t seed = 0) {
  proto::InitializerSpec i;
  i.set_kind("normal");
  i.set_stddev(stddev);
  i.set_seed(seed);
  return i;
}

inline proto::InitializerSpec UniformInit(double low, double high, uint64_t seed = 0) {
  proto::InitializerSpec i;
  i.set_kind("uniform");
  i.set_low(low);
  i.set_high(high);
  i.set_seed(seed);
  return i;
}

inline proto::InitializerSpec GlorotUniform(uint64_t seed = 0) {
  proto::InitializerSpec i;
  i.set_kind("glorot_uniform");
  i.set_seed(seed);
  return i;
}

}  // namespace coxswain
