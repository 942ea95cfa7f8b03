// Optimizers and initializers, by TensorFlow's names and defaults. Formulas: ps_server/optimizer.h.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "protos/variable.pb.h"

namespace coxswain {

inline proto::OptimizerSpec Sgd(double learning_rate) {
  proto::OptimizerSpec o;
  o.set_kind("sgd");
  o.set_learning_rate(learning_rate);
  return o;
}

inline proto::OptimizerSpec Momentum(double learning_rate, double momentum = 0.9,
                                     bool nesterov = false) {
  proto::OptimizerSpec o = Sgd(learning_rate);
  o.set_kind("momentum");
  o.set_momentum(momentum);
  o.set_nesterov(nesterov);
  return o;
}

inline proto::OptimizerSpec Adagrad(double learning_rate, double initial_accumulator = 0.1) {
  proto::OptimizerSpec o = Sgd(learning_rate);
  o.set_kind("adagrad");
  o.set_initial_accumulator(initial_accumulator);
  return o;
}

// Adagrad with one accumulator a row, of the mean of its squares: for tables.
inline proto::OptimizerSpec RowwiseAdagrad(double learning_rate, double initial_accumulator = 0) {
  proto::OptimizerSpec o = Adagrad(learning_rate, initial_accumulator);
  o.set_kind("rowwise_adagrad");
  return o;
}

inline proto::OptimizerSpec Adam(double learning_rate, double beta1 = 0.9, double beta2 = 0.999) {
  proto::OptimizerSpec o = Sgd(learning_rate);
  o.set_kind("adam");
  o.set_beta1(beta1);
  o.set_beta2(beta2);
  return o;
}

// Adam that moves only the rows that a step touched: for tables, where Adam's own meaning, all rows
// move, costs a pass over the whole table with each step.
inline proto::OptimizerSpec LazyAdam(double learning_rate, double beta1 = 0.9,
                                     double beta2 = 0.999) {
  proto::OptimizerSpec o = Adam(learning_rate, beta1, beta2);
  o.set_kind("lazy_adam");
  return o;
}

inline proto::OptimizerSpec Ftrl(double learning_rate, double l1 = 0, double l2 = 0) {
  proto::OptimizerSpec o = Sgd(learning_rate);
  o.set_kind("ftrl");
  o.set_l1(l1);
  o.set_l2(l2);
  return o;
}

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
