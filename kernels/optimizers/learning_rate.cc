#include "kernels/optimizers/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain::kernels {
namespace {

absl::Status Invalid(absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat("learning rate schedule: ", message));
}

absl::Status CheckBoundaries(const proto::LearningRateSchedule& spec) {
  const int n = spec.boundaries_size();
  if (n == 0 || spec.factors_size() != n) {
    return Invalid(absl::StrCat("piecewise_constant wants as many factors as boundaries, at least ",
                                "one; got ", n, " boundaries and ", spec.factors_size(),
                                " factors"));
  }
  for (int i = 0; i < n; ++i) {
    if (spec.boundaries(i) < 0 || (i > 0 && spec.boundaries(i) <= spec.boundaries(i - 1))) {
      return Invalid(absl::StrCat("boundaries must be >= 0 and ascend, got ", spec.boundaries(i),
                                  " as number ", i));
    }
    if (!std::isfinite(spec.factors(i)) || spec.factors(i) < 0) {
      return Invalid(absl::StrCat("factors must be finite and >= 0, got ", spec.factors(i)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDecay(const proto::LearningRateSchedule& spec) {
  if (spec.decay_steps() < 1) {
    return Invalid(
        absl::StrCat(spec.kind(), ": decay_steps must be >= 1, got ", spec.decay_steps()));
  }
  if (spec.kind() == "exponential_decay") {
    if (std::isfinite(spec.decay_rate()) && spec.decay_rate() > 0) return absl::OkStatus();
    return Invalid(absl::StrCat("decay_rate must be finite and > 0, got ", spec.decay_rate()));
  }
  if (std::isfinite(spec.end_factor()) && spec.end_factor() >= 0) return absl::OkStatus();
  return Invalid(absl::StrCat("end_factor must be finite and >= 0, got ", spec.end_factor()));
}

double Piecewise(const proto::LearningRateSchedule& spec, int64_t step) {
  const auto& boundaries = spec.boundaries();
  const auto passed = std::lower_bound(boundaries.begin(), boundaries.end(), step);
  return passed == boundaries.begin() ? 1 : spec.factors(passed - boundaries.begin() - 1);
}

}  // namespace

absl::StatusOr<LearningRateSchedule> LearningRateSchedule::Create(
    const proto::LearningRateSchedule& spec) {
  LearningRateSchedule schedule;
  schedule.spec_ = spec;
  const std::string& kind = spec.kind();
  if (kind == "constant") {
    schedule.spec_.clear_kind();
  } else if (kind == "piecewise_constant") {
    RETURN_IF_ERROR(CheckBoundaries(spec));
  } else if (kind == "exponential_decay" || kind == "cosine_decay" || kind == "linear_decay") {
    RETURN_IF_ERROR(CheckDecay(spec));
  } else if (!kind.empty()) {
    return Invalid(absl::StrCat("unknown kind '", kind,
                                "': known are constant, piecewise_constant, exponential_decay, "
                                "cosine_decay and linear_decay"));
  }
  if (spec.warmup_steps() < 0) {
    return Invalid(absl::StrCat("warmup_steps must be >= 0, got ", spec.warmup_steps()));
  }
  if (!(spec.warmup_factor() >= 0 && spec.warmup_factor() <= 1)) {
    return Invalid(absl::StrCat("warmup_factor must be in [0, 1], got ", spec.warmup_factor()));
  }
  return schedule;
}

double LearningRateSchedule::Factor(int64_t step) const {
  const int64_t warmup = spec_.warmup_steps();
  if (step < warmup) {
    const double from = spec_.warmup_factor();
    return from + (1 - from) * static_cast<double>(step) / static_cast<double>(warmup);
  }
  step -= warmup;
  if (spec_.kind().empty()) return 1;
  if (spec_.kind() == "piecewise_constant") return Piecewise(spec_, step);
  double progress = static_cast<double>(step) / static_cast<double>(spec_.decay_steps());
  if (spec_.kind() != "exponential_decay") {
    progress = std::min(progress, 1.0);
    const double left =
        spec_.kind() == "cosine_decay" ? 0.5 * (1 + std::cos(M_PI * progress)) : 1 - progress;
    return (1 - spec_.end_factor()) * left + spec_.end_factor();
  }
  if (spec_.staircase()) progress = std::floor(progress);
  // A rate above 1 ends somewhere.
  return std::min(std::pow(spec_.decay_rate(), progress), std::numeric_limits<double>::max());
}

}  // namespace coxswain::kernels
