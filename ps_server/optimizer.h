// The optimizer of a shard: one of kernels/optimizers, whose rule changes weights by a gradient.
//
// Every rule except that of rowwise_adagrad is element-wise. A sparse gradient changes only the
// rows that it names and their slots, with one exception: `adam`, as described in its file. t
// counts the updates of the shard, not of the row.
//
// Arithmetic is IEEE without contraction, so that the result does not depend on the instruction set
// or on how rows are split into shards; a row's sum is the sum of 16 interleaved sums. Weights that
// are stored as bf16 are updated in f32 and rounded, see Bf16Rounding. Thread model: immutable; the
// rows are guarded by the caller.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/optimizers/learning_rate.h"
#include "kernels/optimizers/optimizer_key.h"
#include "protos/variable.pb.h"
#include "ps_server/row_block.h"
#include "ps_server/staleness.h"

namespace coxswain::ps {

class Optimizer {
 public:
  // No optimizer: it has no slots, and Apply must not be called.
  Optimizer() = default;

  // An empty kind gives no optimizer. Errors: InvalidArgument for an unknown kind, or for a
  // parameter that the kind does not have or that is out of its range.
  static absl::StatusOr<Optimizer> Create(const proto::OptimizerSpec& spec);

  bool none() const { return name_.empty(); }
  absl::string_view name() const { return name_; }
  // The factor by which late gradients are compensated; 0: they are not.
  double delay_compensation() const { return delay_compensation_; }
  // Of the moving averages of the weights, see averages.h; 0: there are none.
  double ema_decay() const { return ema_decay_; }
  // Updates that are behind the slots from before the shard was made, see kernels::kEarlierSteps.
  int64_t earlier_steps() const { return earlier_steps_; }
  // Of the update after `step` others.
  double LearningRate(int64_t step) const {
    return given_rate_ >= 0 ? given_rate_ : learning_rate_ * schedule_.Factor(step);
  }
  // From now on, in place of its own and the schedule; negative: these again.
  void UseRate(double rate) { given_rate_ = rate; }

  int slots() const { return slots_; }
  // The name is part of checkpoint files.
  absl::string_view slot_name(int slot) const { return Slot(slot).name; }
  // The initial value of every element of the slot.
  double slot_initial(int slot) const { return Slot(slot).initial; }
  // Whether slots have one value per row.
  bool slots_per_row() const { return slots_per_row_; }

  // Whether a sparse gradient changes rows that it does not name.
  bool SparseMovesAllRows() const { return moves_all_rows_; }

  // Applies `n` gradient rows [n, width]. Row i changes row ids[i] of the block, or row i when
  // `ids` is null; an id that comes twice is applied twice, in order. The caller has checked the
  // ids. `t`, the number of this update of the shard, is >= 1. `staleness` of the gradient: see
  // staleness.h. The learning rate is multiplied by `rate`. T: float or double. Not for none.
  // Returns how many of the rows had changed since block.since; of those that come twice, once.
  template <typename T>
  int64_t Apply(const RowBlock& block, const int64_t* ids, int64_t n, const T* gradient, int64_t t,
                int64_t staleness = 0, double rate = 1) const;

  // For SparseMovesAllRows: all of the block's `rows` take a gradient, most of them zeros. `named`
  // has the other gradients, by ascending row, no row twice; see SummedRows. Rows that may have
  // changed are marked as touched. Returns how many of the named rows had changed since
  // block.since.
  template <typename T>
  int64_t ApplyToAll(const RowBlock& block, int64_t rows, absl::Span<const RowGradient<T>> named,
                     int64_t t, int64_t staleness = 0, double rate = 1) const;

  // The bytes of the rule with which Apply<float> would run, for kernels/row_block_ops.cc. Not for
  // none.
  std::vector<float> RuleNumbers(int64_t t, int64_t staleness, double rate) const;

  // As Apply, but adds the values to the weights; slots do not change.
  template <typename T>
  static void Add(const RowBlock& block, const int64_t* ids, int64_t n, const T* values);

 private:
  class Loops;
  template <typename O>
  class LoopsOf;

  template <typename O>
  static absl::StatusOr<Optimizer> Make(const proto::OptimizerSpec& spec);
  const kernels::OptimizerSlot& Slot(int slot) const;
  kernels::OptimizerStep StepOf(int64_t t, int64_t staleness, double rate) const;

  // Shared by copies, and immutable. A pointer, so that users of this header do not depend on the
  // list of optimizers.
  std::shared_ptr<const Loops> loops_;
  absl::string_view name_;
  double learning_rate_ = 0;
  kernels::LearningRateSchedule schedule_;
  LateRate staleness_rate_ = LateRate::kNone;
  double delay_compensation_ = 0;
  double ema_decay_ = 0;
  std::array<kernels::OptimizerSlot, kMaxOptimizerSlots> slot_{};
  int slots_ = 0;
  bool slots_per_row_ = false;
  bool moves_all_rows_ = false;
  double given_rate_ = -1;
  int64_t earlier_steps_ = 0;
};

}  // namespace coxswain::ps
