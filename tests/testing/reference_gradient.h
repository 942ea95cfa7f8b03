// Holds the step that a model takes against the numeric gradient of a plain reference loss, for all
// of its variables: what SGD did is -rate times the gradient.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "absl/strings/match.h"
#include "tests/testing/trained_model.h"

namespace coxswain::testing {

// `before` and `after`: the same job after n and n + 1 steps. `loss`: of the variables in
// `Trained::values`, which must be smooth there. Variables whose name has `state` in it are left
// out: no gradient moves them.
inline void CheckStepIsGradient(Trained* before, const Trained& after,
                                const std::function<double(const Trained&)>& loss,
                                const std::string& state = "/running_") {
  constexpr double kDelta = 1e-5;
  REQUIRE(before->values.size() == after.values.size());
  CHECK(after.losses.back() == Approx(loss(*before)).epsilon(1e-4));
  bool moved = false;
  for (auto& [name, values] : before->values) {
    if (absl::StrContains(name, state)) continue;
    const bool table = before->job.FindTable(name) != nullptr;
    const double rate = table ? 0.5 : 0.1;  // those of Trained
    const Row& now = after.values.at(name);
    REQUIRE(values.size() == now.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const double value = values[i];
      values[i] = value + kDelta;
      const double above = loss(*before);
      values[i] = value - kDelta;
      const double below = loss(*before);
      values[i] = value;
      const double wanted = (above - below) / (2 * kDelta);
      INFO(name << "[" << i << "]");
      CHECK((value - now[i]) / rate == Approx(wanted).margin(1e-4).epsilon(1e-3));
      moved = moved || std::abs(wanted) > 1e-3;
    }
  }
  CHECK(moved);
}

// Layers "name/layer_0", ... with tanh on all, or on all but the last: smooth everywhere.
inline Row TanhLayers(const Trained& t, const std::string& name, Row x, bool last_active) {
  const auto at = [&](int i, const char* what) {
    return t.values.find(absl::StrFormat("%s/layer_%d/%s", name, i, what));
  };
  for (int i = 0; at(i, "bias") != t.values.end(); ++i) {
    const Row& kernel = at(i, "kernel")->second;
    Row y = at(i, "bias")->second;
    REQUIRE(kernel.size() == x.size() * y.size());
    for (size_t j = 0; j < y.size(); ++j) {
      for (size_t k = 0; k < x.size(); ++k) y[j] += x[k] * kernel[k * y.size() + j];
    }
    if (last_active || at(i + 1, "bias") != t.values.end()) {
      for (double& v : y) v = std::tanh(v);
    }
    x = std::move(y);
  }
  return x;
}

inline double CrossEntropy(double logit, double label) {
  return std::log1p(std::exp(-std::abs(logit))) + std::max(logit, 0.0) - label * logit;
}

}  // namespace coxswain::testing
