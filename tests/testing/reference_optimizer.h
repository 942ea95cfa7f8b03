// The optimizers' formulas as the papers have them, one element at a time in double precision.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "protos/variable.pb.h"

namespace coxswain::testing {

struct Element {
  double w = 0, s0 = 0, s1 = 0;
};

inline double SignOf(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

// The shard's update number t, at the rate `lr`. All kinds but rowwise_adagrad.
inline void ReferenceStep(const proto::OptimizerSpec& spec, double lr, double g, int64_t t,
                          Element* e) {
  const std::string& kind = spec.kind();
  const double mu = spec.momentum() > 0 ? spec.momentum() : 0.9;
  const double eps = spec.epsilon() > 0 ? spec.epsilon() : 1e-7;
  if (kind == "ftrl") {
    const double p = spec.learning_rate_power() != 0 ? spec.learning_rate_power() : -0.5;
    const double before = e->s0;
    e->s0 = before + g * g;
    const double sigma = (std::pow(e->s0, -p) - std::pow(before, -p)) / lr;
    e->s1 = e->s1 + g - sigma * e->w;
    const double quadratic = 1 / (std::pow(e->s0, p) * lr) + 2 * spec.l2();
    e->w = std::abs(e->s1) > spec.l1() ? (SignOf(e->s1) * spec.l1() - e->s1) / quadratic : 0;
    return;
  }
  g = g + spec.l2() * e->w;
  if (kind == "sgd") {
    e->w = e->w - lr * g;
  } else if (kind == "momentum") {
    e->s0 = e->s0 * mu + g;
    e->w = spec.nesterov() ? e->w - (g * lr + e->s0 * mu * lr) : e->w - lr * e->s0;
  } else if (kind == "adagrad") {
    e->s0 = e->s0 + g * g;
    e->w = e->w - lr * g / (std::sqrt(e->s0) + eps);
  } else {
    const double b1 = spec.beta1() > 0 ? spec.beta1() : 0.9;
    const double b2 = spec.beta2() > 0 ? spec.beta2() : 0.999;
    const double time = static_cast<double>(t);
    e->s0 = b1 * e->s0 + (1 - b1) * g;
    e->s1 = b2 * e->s1 + (1 - b2) * g * g;
    const double rate = lr * std::sqrt(1 - std::pow(b2, time)) / (1 - std::pow(b1, time));
    e->w = e->w - rate * e->s0 / (std::sqrt(e->s1) + eps);
  }
}

// The same of a row; rowwise_adagrad too, whose accumulator is s0 of the first element.
inline void ReferenceRowStep(const proto::OptimizerSpec& spec, double lr,
                             const std::vector<double>& g, int64_t t, std::vector<Element>* row) {
  if (spec.kind() != "rowwise_adagrad") {
    for (size_t i = 0; i < g.size(); ++i) ReferenceStep(spec, lr, g[i], t, &(*row)[i]);
    return;
  }
  double sum = 0;
  for (size_t i = 0; i < g.size(); ++i) sum += std::pow(g[i] + spec.l2() * (*row)[i].w, 2);
  double& accumulator = row->front().s0;
  accumulator += sum / static_cast<double>(g.size());
  const double eps = spec.epsilon() > 0 ? spec.epsilon() : 1e-7;
  for (size_t i = 0; i < g.size(); ++i) {
    (*row)[i].w -= lr * (g[i] + spec.l2() * (*row)[i].w) / (std::sqrt(accumulator) + eps);
  }
}

}  // namespace coxswain::testing
