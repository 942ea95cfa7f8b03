// Between an optimizer's struct and an OptimizerSpec, in which it travels and is saved.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/optimizers/optimizer_key.h"
#include "protos/variable.pb.h"

namespace coxswain::kernels {

// A parameter of every optimizer: how many updates are behind the slots with which a variable
// begins, where these were taken over from another job. Bias corrections count them; schedules of
// the learning rate do not. A number >= 0; none: 0.
inline constexpr char kEarlierSteps[] = "earlier_steps";
// What is given there; 0 for a number that FromSpec refuses.
int64_t EarlierSteps(const proto::OptimizerSpec& spec);

// The parameter of this name, `learning_rate` among them; none: the optimizer's default.
std::optional<double> FindParameter(const proto::OptimizerSpec& spec, absl::string_view name);
void SetParameter(absl::string_view name, double value, proto::OptimizerSpec* spec);

namespace optimizer_internal {

// Errors: InvalidArgument naming optimizer, parameter, what is wanted and what was found.
absl::Status CheckParameter(absl::string_view kind, absl::string_view name,
                            const ParameterRange& range, double value);
// Errors: InvalidArgument naming a parameter of `spec` that is not among `known`, or earlier steps
// that are no number of steps.
absl::Status CheckNames(const proto::OptimizerSpec& spec,
                        const std::vector<absl::string_view>& known);

}  // namespace optimizer_internal

// With all parameters, also those that are as by default.
template <typename O>
proto::OptimizerSpec ToSpec(const O& optimizer) {
  proto::OptimizerSpec spec;
  spec.set_kind(O::kKind);
  for (const auto& key : O::Keys()) SetParameter(key.name, key.Get(optimizer), &spec);
  return spec;
}

// `spec` is of O's kind; its schedule is not looked at.
// Errors: InvalidArgument for a parameter that O does not have or whose value it does not take.
template <typename O>
absl::StatusOr<O> FromSpec(const proto::OptimizerSpec& spec) {
  O optimizer;
  std::vector<absl::string_view> known;
  for (const auto& key : O::Keys()) {
    known.push_back(key.name);
    const double value = FindParameter(spec, key.name).value_or(key.Get(optimizer));
    const absl::Status good =
        optimizer_internal::CheckParameter(O::kKind, key.name, key.range, value);
    if (!good.ok()) return good;
    key.Set(value, &optimizer);
  }
  const absl::Status good = optimizer_internal::CheckNames(spec, known);
  if (!good.ok()) return good;
  return optimizer;
}

}  // namespace coxswain::kernels
