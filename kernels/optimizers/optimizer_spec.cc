#include "kernels/optimizers/optimizer_spec.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace coxswain::kernels {
namespace {

constexpr absl::string_view kLearningRate = "learning_rate";  // has a field of its own
constexpr double kMostSteps = 9007199254740992;               // 2^53: a double has all below it

}  // namespace

std::optional<double> FindParameter(const proto::OptimizerSpec& spec, absl::string_view name) {
  if (name == kLearningRate) {
    return spec.has_learning_rate() ? std::optional(spec.learning_rate()) : std::nullopt;
  }
  for (const proto::OptimizerParameter& parameter : spec.parameters()) {
    if (parameter.name() == name) return parameter.value();
  }
  return std::nullopt;
}

void SetParameter(absl::string_view name, double value, proto::OptimizerSpec* spec) {
  if (name == kLearningRate) {
    spec->set_learning_rate(value);
    return;
  }
  for (proto::OptimizerParameter& parameter : *spec->mutable_parameters()) {
    if (parameter.name() == name) {
      parameter.set_value(value);
      return;
    }
  }
  proto::OptimizerParameter* parameter = spec->add_parameters();
  parameter->set_name(std::string(name));
  parameter->set_value(value);
}

int64_t EarlierSteps(const proto::OptimizerSpec& spec) {
  const double steps = FindParameter(spec, kEarlierSteps).value_or(0);
  return steps >= 0 && steps <= kMostSteps ? static_cast<int64_t>(steps) : 0;
}

namespace optimizer_internal {

absl::Status CheckParameter(absl::string_view kind, absl::string_view name,
                            const ParameterRange& range, double value) {
  if (range.Contains(value)) return absl::OkStatus();
  std::string wanted = "a finite number";
  if (std::isfinite(range.min) && std::isfinite(range.max)) {
    wanted = absl::StrCat("in ", range.above_min ? "(" : "[", range.min, ", ", range.max,
                          range.below_max ? ")" : "]");
  } else if (std::isfinite(range.min)) {
    absl::StrAppend(&wanted, range.above_min ? " > " : " >= ", range.min);
  } else if (std::isfinite(range.max)) {
    absl::StrAppend(&wanted, range.below_max ? " < " : " <= ", range.max);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer ", kind, ": ", name, " must be ", wanted, ", got ", value));
}

absl::Status CheckNames(const proto::OptimizerSpec& spec,
                        const std::vector<absl::string_view>& known) {
  for (const proto::OptimizerParameter& parameter : spec.parameters()) {
    if (std::find(known.begin(), known.end(), parameter.name()) != known.end()) continue;
    if (parameter.name() == kEarlierSteps) {
      const double value = parameter.value();
      if (value >= 0 && value <= kMostSteps && value == std::floor(value)) continue;
      return absl::InvalidArgumentError(absl::StrCat("optimizer ", spec.kind(), ": ", kEarlierSteps,
                                                     " must be a number of steps, got ", value));
    }
    return absl::InvalidArgumentError(absl::StrCat("optimizer ", spec.kind(), " has no parameter '",
                                                   parameter.name(), "': it has ",
                                                   absl::StrJoin(known, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace optimizer_internal
}  // namespace coxswain::kernels
