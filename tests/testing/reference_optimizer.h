// The optimizers' formulas as the papers have them, one element at a time in double precision.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/optimizers/optimizer_info.h"
#include "kernels/optimizers/optimizer_spec.h"
#include "protos/variable.pb.h"

namespace coxswain::testing {

struct Element {
  double w = 0, s0 = 0, s1 = 0;
};

inline double SignOf(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

// As the spec has it, or the default of its kind.
inline double ParameterOf(const proto::OptimizerSpec& spec, absl::string_view name) {
  const kernels::OptimizerInfo* info = kernels::FindOptimizer(spec.kind());
  REQUIRE(info != nullptr);
  for (const kernels::OptimizerInfo::Parameter& parameter : info->parameters) {
    if (parameter.name == name)
      return kernels::FindParameter(spec, name).value_or(parameter.fallback);
  }
  FAIL("optimizer " << info->kind << " has no " << name);
  return 0;
}

// The shard's update number t, at the rate `lr`. All kinds but rowwise_adagrad.
inline void ReferenceStep(const proto::OptimizerSpec& spec, double lr, double g, int64_t t,
                          Element* e) {
  const std::string& kind = spec.kind();
  if (kind == "adamw") {
    const double b1 = ParameterOf(spec, "beta1"), b2 = ParameterOf(spec, "beta2");
    const double time = static_cast<double>(t);
    e->w = e->w - lr * ParameterOf(spec, "weight_decay") * e->w;
    e->s0 = b1 * e->s0 + (1 - b1) * g;
    e->s1 = b2 * e->s1 + (1 - b2) * g * g;
    const double m = e->s0 / (1 - std::pow(b1, time)), v = e->s1 / (1 - std::pow(b2, time));
    // The small number is added to the root before its correction, as in Adam's paper (the end of
    // section 2).
    e->w =
        e->w -
        lr * m / (std::sqrt(v) + ParameterOf(spec, "epsilon") / std::sqrt(1 - std::pow(b2, time)));
    return;
  }
  const double l2 = ParameterOf(spec, "l2");
  if (kind == "ftrl") {
    const double p = ParameterOf(spec, "learning_rate_power"), l1 = ParameterOf(spec, "l1");
    const double before = e->s0;
    e->s0 = before + g * g;
    const double sigma = (std::pow(e->s0, -p) - std::pow(before, -p)) / lr;
    e->s1 = e->s1 + g - sigma * e->w;
    const double quadratic = 1 / (std::pow(e->s0, p) * lr) + 2 * l2;
    e->w = std::abs(e->s1) > l1 ? (SignOf(e->s1) * l1 - e->s1) / quadratic : 0;
    return;
  }
  g = g + l2 * e->w;
  if (kind == "sgd") {
    e->w = e->w - lr * g;
  } else if (kind == "momentum") {
    const double mu = ParameterOf(spec, "momentum");
    e->s0 = e->s0 * mu + g;
    const bool nesterov = ParameterOf(spec, "nesterov") != 0;
    e->w = nesterov ? e->w - (g * lr + e->s0 * mu * lr) : e->w - lr * e->s0;
  } else if (kind == "adagrad") {
    e->s0 = e->s0 + g * g;
    e->w = e->w - lr * g / (std::sqrt(e->s0) + ParameterOf(spec, "epsilon"));
  } else if (kind == "rmsprop") {
    const double rho = ParameterOf(spec, "rho");
    e->s0 = rho * e->s0 + (1 - rho) * g * g;
    e->w = e->w - lr * g / (std::sqrt(e->s0) + ParameterOf(spec, "epsilon"));
  } else if (kind == "adam" || kind == "lazy_adam") {
    const double b1 = ParameterOf(spec, "beta1"), b2 = ParameterOf(spec, "beta2");
    const double time = static_cast<double>(t);
    e->s0 = b1 * e->s0 + (1 - b1) * g;
    e->s1 = b2 * e->s1 + (1 - b2) * g * g;
    const double rate = lr * std::sqrt(1 - std::pow(b2, time)) / (1 - std::pow(b1, time));
    e->w = e->w - rate * e->s0 / (std::sqrt(e->s1) + ParameterOf(spec, "epsilon"));
  } else {
    FAIL("write the formula of " << kind << " here");
  }
}

// The same of a row; rowwise_adagrad too, whose accumulator is s0 of the first element.
inline void ReferenceRowStep(const proto::OptimizerSpec& spec, double lr,
                             const std::vector<double>& g, int64_t t, std::vector<Element>* row) {
  if (spec.kind() != "rowwise_adagrad") {
    for (size_t i = 0; i < g.size(); ++i) ReferenceStep(spec, lr, g[i], t, &(*row)[i]);
    return;
  }
  const double l2 = ParameterOf(spec, "l2");
  double sum = 0;
  for (size_t i = 0; i < g.size(); ++i) sum += std::pow(g[i] + l2 * (*row)[i].w, 2);
  double& accumulator = row->front().s0;
  accumulator += sum / static_cast<double>(g.size());
  const double eps = ParameterOf(spec, "epsilon");
  for (size_t i = 0; i < g.size(); ++i) {
    (*row)[i].w -= lr * (g[i] + l2 * (*row)[i].w) / (std::sqrt(accumulator) + eps);
  }
}

}  // namespace coxswain::testing
