#include "ps_server/optimizer.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ps_server/optimizer_loops.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"

namespace coxswain {
namespace {

struct KindInfo {
  OptimizerKind kind;
  absl::string_view name;
  int slots;
  std::array<absl::string_view, kMaxOptimizerSlots> slot_names;
};

constexpr std::array<KindInfo, 8> kKinds = {{
    {OptimizerKind::kNone, "", 0, {"", ""}},
    {OptimizerKind::kSgd, "sgd", 0, {"", ""}},
    {OptimizerKind::kMomentum, "momentum", 1, {"momentum", ""}},
    {OptimizerKind::kAdagrad, "adagrad", 1, {"accumulator", ""}},
    {OptimizerKind::kRowwiseAdagrad, "rowwise_adagrad", 1, {"accumulator", ""}},
    {OptimizerKind::kAdam, "adam", 2, {"m", "v"}},
    {OptimizerKind::kLazyAdam, "lazy_adam", 2, {"m", "v"}},
    {OptimizerKind::kFtrl, "ftrl", 2, {"accumulator", "linear"}},
}};

const KindInfo& InfoOf(OptimizerKind kind) { return kKinds[static_cast<size_t>(kind)]; }

double OrDefault(double value, double fallback) { return value == 0 ? fallback : value; }

absl::Status OutOfRange(absl::string_view kind, absl::string_view field, absl::string_view wanted,
                        double found) {
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer ", kind, ": ", field, " must be ", wanted, ", got ", found));
}

absl::Status CheckAtLeastZero(absl::string_view kind, absl::string_view field, double value) {
  if (std::isfinite(value) && value >= 0) return absl::OkStatus();
  return OutOfRange(kind, field, "a finite number >= 0", value);
}

absl::Status CheckDecay(absl::string_view kind, absl::string_view field, double value) {
  if (value >= 0 && value < 1) return absl::OkStatus();
  return OutOfRange(kind, field, "in [0, 1)", value);
}

absl::Status CheckParams(absl::string_view kind, const OptimizerParams& p) {
  if (!std::isfinite(p.learning_rate) || p.learning_rate <= 0) {
    return OutOfRange(kind, "learning_rate", "a finite number > 0", p.learning_rate);
  }
  RETURN_IF_ERROR(CheckDecay(kind, "momentum", p.momentum));
  RETURN_IF_ERROR(CheckDecay(kind, "beta1", p.beta1));
  RETURN_IF_ERROR(CheckDecay(kind, "beta2", p.beta2));
  RETURN_IF_ERROR(CheckAtLeastZero(kind, "epsilon", p.epsilon));
  RETURN_IF_ERROR(CheckAtLeastZero(kind, "initial_accumulator", p.initial_accumulator));
  RETURN_IF_ERROR(CheckAtLeastZero(kind, "l1", p.l1));
  RETURN_IF_ERROR(CheckAtLeastZero(kind, "l2", p.l2));
  if (!std::isfinite(p.learning_rate_power) || p.learning_rate_power > 0) {
    return OutOfRange(kind, "learning_rate_power", "a finite number <= 0", p.learning_rate_power);
  }
  return absl::OkStatus();
}

// Fields whose silent loss would train another model than the one asked for.
absl::Status CheckUnusedFields(OptimizerKind kind, const proto::OptimizerSpec& spec) {
  if (kind == OptimizerKind::kSgd && (spec.momentum() != 0 || spec.nesterov())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "optimizer sgd takes no momentum (got momentum ", spec.momentum(), ", nesterov ",
        spec.nesterov() ? "true" : "false", "): use the optimizer 'momentum'"));
  }
  if (kind != OptimizerKind::kFtrl && spec.l1() != 0) {
    return absl::InvalidArgumentError(absl::StrCat("optimizer ", spec.kind(), " takes no l1 (got ",
                                                   spec.l1(), "): only ftrl does"));
  }
  return absl::OkStatus();
}

// Update number `t` at the rate `lr`.
template <typename T>
optimizer_internal::AdamRule<T> MakeAdamRule(const OptimizerParams& p, double lr, int64_t t) {
  const double time = static_cast<double>(t);
  const double lr_t = lr * std::sqrt(1 - std::pow(p.beta2, time)) / (1 - std::pow(p.beta1, time));
  return {static_cast<T>(lr_t),     static_cast<T>(p.l2),        static_cast<T>(p.beta1),
          static_cast<T>(p.beta2),  static_cast<T>(1 - p.beta1), static_cast<T>(1 - p.beta2),
          static_cast<T>(p.epsilon)};
}

}  // namespace

absl::StatusOr<Optimizer> Optimizer::Create(const proto::OptimizerSpec& spec) {
  const KindInfo* info = nullptr;
  for (const KindInfo& candidate : kKinds) {
    if (candidate.name == spec.kind()) info = &candidate;
  }
  if (info == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown optimizer '", spec.kind(),
                     "': known are sgd, momentum, adagrad, rowwise_adagrad, adam, lazy_adam and "
                     "ftrl"));
  }
  Optimizer optimizer;
  optimizer.kind_ = info->kind;
  if (info->kind == OptimizerKind::kNone) return optimizer;
  RETURN_IF_ERROR(CheckUnusedFields(info->kind, spec));
  OptimizerParams& p = optimizer.params_;
  p.learning_rate = spec.learning_rate();
  p.momentum = OrDefault(spec.momentum(), 0.9);
  p.nesterov = spec.nesterov();
  p.beta1 = OrDefault(spec.beta1(), 0.9);
  p.beta2 = OrDefault(spec.beta2(), 0.999);
  p.epsilon = OrDefault(spec.epsilon(), 1e-7);
  p.initial_accumulator =
      OrDefault(spec.initial_accumulator(), optimizer.slots_per_row() ? 0 : 0.1);
  p.l1 = spec.l1();
  p.l2 = spec.l2();
  p.learning_rate_power = OrDefault(spec.learning_rate_power(), -0.5);
  RETURN_IF_ERROR(CheckParams(info->name, p));
  absl::StatusOr<LearningRateSchedule> schedule = LearningRateSchedule::Create(spec.schedule());
  if (!schedule.ok()) {
    return Annotate(schedule.status(), absl::StrCat("optimizer ", info->name));
  }
  optimizer.schedule_ = *std::move(schedule);
  return optimizer;
}

absl::string_view Optimizer::name() const { return InfoOf(kind_).name; }

int Optimizer::slots() const { return InfoOf(kind_).slots; }

absl::string_view Optimizer::slot_name(int slot) const {
  COX_CHECK(slot >= 0 && slot < slots(), "slot ", slot, " of ", slots());
  return InfoOf(kind_).slot_names[static_cast<size_t>(slot)];
}

double Optimizer::slot_initial(int slot) const {
  return slot_name(slot) == "accumulator" ? params_.initial_accumulator : 0;
}

double Optimizer::LearningRate(int64_t step) const {
  return params_.learning_rate * schedule_.Factor(step);
}

template <typename T>
void Optimizer::Apply(const RowBlock& block, const int64_t* ids, int64_t n, const T* gradient,
                      int64_t t) const {
  using namespace optimizer_internal;  // NOLINT: the rules
  COX_CHECK(t >= 1, "update number ", t);
  const OptimizerParams& p = params_;
  const double rate = LearningRate(t - 1);
  const T lr = static_cast<T>(rate), l2 = static_cast<T>(p.l2);
  const T eps = static_cast<T>(p.epsilon);
  switch (kind_) {
    case OptimizerKind::kNone:
      COX_CHECK(false, "a gradient for a shard without an optimizer");
      return;
    case OptimizerKind::kSgd:
      return Run(SgdRule<T>{lr, l2}, block, ids, n, gradient);
    case OptimizerKind::kMomentum: {
      const T mu = static_cast<T>(p.momentum);
      return Run(MomentumRule<T>{lr, l2, mu, p.nesterov ? T{1} : T{0}, p.nesterov ? mu : T{1}},
                 block, ids, n, gradient);
    }
    case OptimizerKind::kAdagrad:
      return Run(AdagradRule<T>{lr, l2, eps}, block, ids, n, gradient);
    case OptimizerKind::kRowwiseAdagrad:
      return Run(RowwiseAdagradRule<T>{lr, l2, eps}, block, ids, n, gradient);
    case OptimizerKind::kAdam:
    case OptimizerKind::kLazyAdam:
      return Run(MakeAdamRule<T>(p, rate, t), block, ids, n, gradient);
    case OptimizerKind::kFtrl: {
      const T inverse_lr = static_cast<T>(1 / rate), l1 = static_cast<T>(p.l1);
      if (std::isinf(inverse_lr)) return;
      const T twice_l2 = static_cast<T>(2 * p.l2);
      if (p.learning_rate_power == -0.5) {
        return Run(FtrlRule<T>{inverse_lr, l1, twice_l2}, block, ids, n, gradient);
      }
      return Run(FtrlPowerRule<T>{inverse_lr, l1, twice_l2, static_cast<T>(-p.learning_rate_power)},
                 block, ids, n, gradient);
    }
  }
}

template <typename T>
void Optimizer::ApplyToAll(const RowBlock& block, int64_t rows,
                           absl::Span<const RowGradient<T>> named, int64_t t) const {
  COX_CHECK(SparseMovesAllRows() && t >= 1, name(), ", update number ", t);
  const std::vector<T> zeros(static_cast<size_t>(block.width));
  optimizer_internal::RunSweep<T>(
      MakeAdamRule<T>(params_, LearningRate(t - 1), t), block,
      {rows, named.data(), static_cast<int64_t>(named.size()), zeros.data()});
}

template <typename T>
void Optimizer::Add(const RowBlock& block, const int64_t* ids, int64_t n, const T* values) {
  optimizer_internal::Run(optimizer_internal::AddRule<T>{}, block, ids, n, values);
}

template void Optimizer::Apply<float>(const RowBlock&, const int64_t*, int64_t, const float*,
                                      int64_t) const;
template void Optimizer::Apply<double>(const RowBlock&, const int64_t*, int64_t, const double*,
                                       int64_t) const;
template void Optimizer::ApplyToAll<float>(const RowBlock&, int64_t,
                                           absl::Span<const RowGradient<float>>, int64_t) const;
template void Optimizer::ApplyToAll<double>(const RowBlock&, int64_t,
                                            absl::Span<const RowGradient<double>>, int64_t) const;
template void Optimizer::Add<float>(const RowBlock&, const int64_t*, int64_t, const float*);
template void Optimizer::Add<double>(const RowBlock&, const int64_t*, int64_t, const double*);

}  // namespace coxswain
