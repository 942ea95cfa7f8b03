// What the file of an optimizer is written with: the values that its parameters may have, its keys
// and its slots. ps_server/README.md shows how to add an optimizer.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/strings/string_view.h"

namespace coxswain::kernels {

// The finite numbers from `min` to `max`.
struct ParameterRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  // `min` itself is not allowed
  bool below_max = false;  // nor is `max`

  bool Contains(double value) const {
    return std::isfinite(value) && (above_min ? value > min : value >= min) &&
           (below_max ? value < max : value <= max);
  }
  bool operator==(const ParameterRange&) const = default;
};

constexpr ParameterRange AtLeast(double min) { return {.min = min}; }
constexpr ParameterRange AtMost(double max) { return {.max = max}; }
constexpr ParameterRange Above(double min) { return {.min = min, .above_min = true}; }
constexpr ParameterRange FromBelow(double min, double max) {
  return {.min = min, .max = max, .below_max = true};
}

// A number or a switch of the optimizer that the struct O describes: a key of JOB.yaml, a member of
// O, and a parameter in an OptimizerSpec, all of one name. The default is that of the member.
template <typename O>
struct OptimizerKey {
  OptimizerKey(const char* key_name, double O::*member, ParameterRange values, const char* key_help)
      : name(key_name), help(key_help), number(member), range(values) {}
  OptimizerKey(const char* key_name, bool O::*member, const char* key_help)
      : name(key_name), help(key_help), flag(member), range{.min = 0, .max = 1} {}

  double Get(const O& optimizer) const {
    return flag != nullptr ? static_cast<double>(optimizer.*flag) : optimizer.*number;
  }
  void Set(double value, O* optimizer) const {
    if (flag != nullptr) {
      optimizer->*flag = value != 0;
    } else {
      optimizer->*number = value;
    }
  }

  const char* name;
  const char* help;             // as docs/job.md has it
  double O::*number = nullptr;  // one of the two is set
  bool O::*flag = nullptr;
  ParameterRange range;
};

template <typename O>
using OptimizerKeys = std::vector<OptimizerKey<O>>;

// Keys that mean the same wherever they are.
template <typename O>
OptimizerKey<O> LearningRateKey() {
  return {"learning_rate", &O::learning_rate, Above(0), "learning rate"};
}
template <typename O>
OptimizerKey<O> EpsilonKey() {
  return {"epsilon", &O::epsilon, AtLeast(0), "added to the denominator for numerical stability"};
}
template <typename O>
OptimizerKey<O> L2Key() {
  return {"l2", &O::l2, AtLeast(0), "L2 penalty, on the rows that a step updates"};
}

// What an optimizer keeps beside each weight, or beside each row. The name is part of checkpoint
// files: it never changes.
struct OptimizerSlot {
  absl::string_view name;
  double initial = 0;
};

// The update that a rule is asked for.
struct OptimizerStep {
  double rate = 0;     // the learning rate, as the schedule has it now
  int64_t number = 1;  // of this update of the shard, from 1; see kEarlierSteps
};

}  // namespace coxswain::kernels
