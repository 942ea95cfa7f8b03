#include "ps_server/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/optimizers/optimizer_info.h"
#include "kernels/optimizers/optimizer_list.h"
#include "ps_server/averages.h"
#include "ps_server/optimizer_loops.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"

namespace coxswain::ps {

using optimizer_internal::Sweep;

// The loops of one optimizer, with its parameters.
class Optimizer::Loops {
 public:
  virtual ~Loops() = default;
  virtual int64_t Run(const kernels::OptimizerStep& step, const RowBlock& block, const int64_t* ids,
                      int64_t n, const float* gradient) const = 0;
  virtual int64_t Run(const kernels::OptimizerStep& step, const RowBlock& block, const int64_t* ids,
                      int64_t n, const double* gradient) const = 0;
  virtual int64_t Run(const kernels::OptimizerStep& step, const RowBlock& block,
                      const Sweep<float>& sweep) const = 0;
  virtual int64_t Run(const kernels::OptimizerStep& step, const RowBlock& block,
                      const Sweep<double>& sweep) const = 0;
  virtual std::vector<float> RuleNumbers(const kernels::OptimizerStep& step) const = 0;
};

template <typename O>
class Optimizer::LoopsOf final : public Loops {
 public:
  explicit LoopsOf(const O& optimizer) : optimizer_(optimizer) {}

  int64_t Run(const kernels::OptimizerStep& step, const RowBlock& block, const int64_t* ids,
              int64_t n, const float* gradient) const override {
    return optimizer_internal::RunRows<O, float>(optimizer_, step, block, ids, n, gradient);
  }
  int64_t Run(const kernels::OptimizerStep& step, const RowBlock& block, const int64_t* ids,
              int64_t n, const double* gradient) const override {
    return optimizer_internal::RunRows<O, double>(optimizer_, step, block, ids, n, gradient);
  }
  int64_t Run(const kernels::OptimizerStep& step, const RowBlock& block,
              const Sweep<float>& sweep) const override {
    return optimizer_internal::RunSweep<O, float>(optimizer_, step, block, sweep);
  }
  int64_t Run(const kernels::OptimizerStep& step, const RowBlock& block,
              const Sweep<double>& sweep) const override {
    return optimizer_internal::RunSweep<O, double>(optimizer_, step, block, sweep);
  }
  std::vector<float> RuleNumbers(const kernels::OptimizerStep& step) const override {
    const auto rule = optimizer_.template RuleOf<float>(step);
    static_assert(std::is_trivially_copyable_v<decltype(rule)> &&
                  sizeof(rule) % sizeof(float) == 0);
    std::vector<float> numbers(sizeof(rule) / sizeof(float));
    std::memcpy(numbers.data(), &rule, sizeof(rule));
    return numbers;
  }

 private:
  O optimizer_;
};

template <typename O>
absl::StatusOr<Optimizer> Optimizer::Make(const proto::OptimizerSpec& spec) {
  ASSIGN_OR_RETURN(const O made, kernels::FromSpec<O>(spec));
  absl::StatusOr<kernels::LearningRateSchedule> schedule =
      kernels::LearningRateSchedule::Create(spec.schedule());
  if (!schedule.ok()) return Annotate(schedule.status(), absl::StrCat("optimizer ", O::kKind));
  absl::StatusOr<LateRate> rate = LateRateOf(spec.staleness_rate());
  if (!rate.ok()) return Annotate(rate.status(), absl::StrCat("optimizer ", O::kKind));
  if (!std::isfinite(spec.delay_compensation()) || spec.delay_compensation() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer ", O::kKind, ": delay_compensation: wanted a number >= 0, found ",
                     spec.delay_compensation()));
  }
  RETURN_IF_ERROR(CheckEmaDecay(spec));
  const auto slots = made.Slots();
  static_assert(slots.size() <= kMaxOptimizerSlots);
  Optimizer optimizer;
  optimizer.loops_ = std::make_shared<const LoopsOf<O>>(made);
  optimizer.name_ = O::kKind;
  optimizer.learning_rate_ = made.learning_rate;
  optimizer.schedule_ = *std::move(schedule);
  optimizer.staleness_rate_ = *rate;
  optimizer.delay_compensation_ = spec.delay_compensation();
  optimizer.ema_decay_ = spec.ema_decay();
  optimizer.earlier_steps_ = kernels::EarlierSteps(spec);
  std::copy(slots.begin(), slots.end(), optimizer.slot_.begin());
  optimizer.slots_ = static_cast<int>(slots.size());
  optimizer.slots_per_row_ = optimizer_internal::kPerRow<typename O::template Rule<float>, float>;
  optimizer.moves_all_rows_ = optimizer_internal::kMovesAllRows<O>;
  return optimizer;
}

absl::StatusOr<Optimizer> Optimizer::Create(const proto::OptimizerSpec& spec) {
  if (spec.kind().empty()) return Optimizer();
#define COX_MAKE_OPTIMIZER(O) \
  if (spec.kind() == O::kKind) return Make<O>(spec);
  COX_OPTIMIZERS(COX_MAKE_OPTIMIZER)
#undef COX_MAKE_OPTIMIZER
  return absl::InvalidArgumentError(absl::StrCat("unknown optimizer '", spec.kind(),
                                                 "': known are ", kernels::OptimizerKinds(", ")));
}

const kernels::OptimizerSlot& Optimizer::Slot(int slot) const {
  COX_CHECK(slot >= 0 && slot < slots_, "slot ", slot, " of ", slots_);
  return slot_[static_cast<size_t>(slot)];
}

kernels::OptimizerStep Optimizer::StepOf(int64_t t, int64_t staleness, double rate) const {
  COX_CHECK(t >= 1, "update number ", t);
  return {LearningRate(t - 1) * RateFactor(staleness_rate_, staleness) * rate, t + earlier_steps_};
}

template <typename T>
int64_t Optimizer::Apply(const RowBlock& block, const int64_t* ids, int64_t n, const T* gradient,
                         int64_t t, int64_t staleness, double rate) const {
  COX_CHECK(!none(), "a gradient for a shard without an optimizer");
  return loops_->Run(StepOf(t, staleness, rate), block, ids, n, gradient);
}

template <typename T>
int64_t Optimizer::ApplyToAll(const RowBlock& block, int64_t rows,
                              absl::Span<const RowGradient<T>> named, int64_t t, int64_t staleness,
                              double rate) const {
  COX_CHECK(SparseMovesAllRows(), name());
  const std::vector<T> zeros(static_cast<size_t>(block.width));
  return loops_->Run(
      StepOf(t, staleness, rate), block,
      Sweep<T>{rows, named.data(), static_cast<int64_t>(named.size()), zeros.data()});
}

std::vector<float> Optimizer::RuleNumbers(int64_t t, int64_t staleness, double rate) const {
  COX_CHECK(!none(), "a gradient for a shard without an optimizer");
  return loops_->RuleNumbers(StepOf(t, staleness, rate));
}

template <typename T>
void Optimizer::Add(const RowBlock& block, const int64_t* ids, int64_t n, const T* values) {
  optimizer_internal::RunAdd(block, ids, n, values);
}

template int64_t Optimizer::Apply<float>(const RowBlock&, const int64_t*, int64_t, const float*,
                                         int64_t, int64_t, double) const;
template int64_t Optimizer::Apply<double>(const RowBlock&, const int64_t*, int64_t, const double*,
                                          int64_t, int64_t, double) const;
template int64_t Optimizer::ApplyToAll<float>(const RowBlock&, int64_t,
                                              absl::Span<const RowGradient<float>>, int64_t,
                                              int64_t, double) const;
template int64_t Optimizer::ApplyToAll<double>(const RowBlock&, int64_t,
                                               absl::Span<const RowGradient<double>>, int64_t,
                                               int64_t, double) const;
template void Optimizer::Add<float>(const RowBlock&, const int64_t*, int64_t, const float*);
template void Optimizer::Add<double>(const RowBlock&, const int64_t*, int64_t, const double*);

}  // namespace coxswain::ps
