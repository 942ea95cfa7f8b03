// Optimizers and initializers, by TensorFlow's names and defaults. Formulas: ps_server/optimizer.h.
#pragma once

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

inline proto::OptimizerSpec Adam(double learning_rate, double beta1 = 0.9, double beta2 = 0.999) {
  proto::OptimizerSpec o = Sgd(learning_rate);
  o.set_kind("adam");
  o.set_beta1(beta1);
  o.set_beta2(beta2);
  return o;
}

// Adam that moves only the rows that a step touched: for tables.
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
