// The rules by which a gradient changes a shard's weights.
//
// Notation: w weight, g gradient, t the number of this update of the shard (from 1), lr learning
// rate, which may follow a schedule (see learning_rate.h, with step t - 1). Every rule is
// element-wise, but that of rowwise_adagrad. Before the rule, g += l2 * w (all kinds but ftrl,
// which has its own l2).
//
//   kind       slots        rule                                              as in
//   sgd        -            w -= lr g                                         [1] GradientDescent
//   momentum   momentum     a = mu a + g;  w -= lr a                          [1] Momentum
//   .nesterov  momentum     a = mu a + g;  w -= lr (g + mu a)                 [2]
//   adagrad    accumulator  a += g^2;  w -= lr g / (sqrt(a) + eps)            [1] AdagradV2, [3]
//   rowwise_   accumulator  a += mean of g^2 over the row;                    [6]
//   adagrad    (one a row)  w -= lr g / (sqrt(a) + eps)
//   adam,      m, v         m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  [1] Adam, [4]
//   lazy_adam               w -= lr sqrt(1 - b2^t) / (1 - b1^t)
//                                * m / (sqrt(v) + eps)
//                           (an m below 2^-100 in f32, 2^-996 in f64, becomes 0)
//   ftrl       accumulator  n' = n + g^2;                                     [1] Ftrl, [5]
//              linear       z += g - (n'^-p - n^-p) / lr * w;
//                           w = |z| <= l1 ? 0
//                               : (sign(z) l1 - z) / (n'^-p / lr + 2 l2);  n = n'
//
// [1] TensorFlow's ResourceApply...; [2] Sutskever et al. 2013; [3] Duchi et al. 2011; [4] Kingma
// and Ba 2015, the end of section 2; [5] McMahan et al. 2013; [6] Mudigere et al. 2021, section
// 4.1.2, as FBGEMM's EXACT_ROWWISE_ADAGRAD with weight decay L2.
//
// A sparse gradient moves the rows that it names and no other (their slots neither), with one
// exception: `adam` keeps TF's meaning, in which the moments of every row decay and every row
// moves. It is exactly the dense update with zeros where there is no gradient. That costs a pass
// over all rows of the shard that ever had a gradient, with each update, and the first update after
// a snapshot copies all rows; lazy_adam costs what it touches, and is what tables want. t counts
// the updates of the shard, not of the row.
//
// Where a schedule changes ftrl's rate, lr is that of the update, as in [1]: n and z keep what they
// have, so a row's next update also scales what it learnt before. At a rate of 0 it stays as it is.
//
// Fields of OptimizerSpec. "0 =" tells what a field that is left out means:
//   learning_rate        > 0, has no default
//   momentum             in [0, 1);  0 = 0.9 for `momentum`;  must be 0 for `sgd`
//   nesterov             `momentum` only
//   beta1, beta2         in [0, 1);  0 = 0.9, 0.999
//   epsilon              >= 0;       0 = 1e-7
//   initial_accumulator  >= 0;       0 = 0.1 (adagrad, ftrl), 0 (rowwise_adagrad, as FBGEMM)
//   learning_rate_power  <= 0;       0 = -0.5 (ftrl's p)
//   l1, l2               >= 0;       0 = none;  l1 is for ftrl only
// A parameter for which a true 0 is wanted where 0 means a default takes a tiny value, as 1e-30.
// A field that the kind does not use is ignored, except those that would surprise (above).
//
// Arithmetic is IEEE without contraction, so that the result does not depend on the instruction set
// or on how rows are split into shards; a row's sum is that of 16 interleaved sums. Weights that
// are stored as bf16 are updated in f32 and rounded, see Bf16Rounding. Thread model: immutable; the
// rows are guarded by the caller.
#pragma once

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "protos/variable.pb.h"
#include "ps_server/learning_rate.h"
#include "ps_server/row_block.h"

namespace coxswain {

enum class OptimizerKind : uint8_t {
  kNone,
  kSgd,
  kMomentum,
  kAdagrad,
  kRowwiseAdagrad,
  kAdam,
  kLazyAdam,
  kFtrl
};

// The spec with its defaults filled in.
struct OptimizerParams {
  double learning_rate = 0;
  double momentum = 0;
  bool nesterov = false;
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  double initial_accumulator = 0;
  double l1 = 0;
  double l2 = 0;
  double learning_rate_power = 0;
};

class Optimizer {
 public:
  // No optimizer: kNone, without slots.
  Optimizer() = default;

  // An empty kind gives kNone.
  // Errors: InvalidArgument for an unknown kind or a parameter out of its range.
  static absl::StatusOr<Optimizer> Create(const proto::OptimizerSpec& spec);

  OptimizerKind kind() const { return kind_; }
  absl::string_view name() const;
  const OptimizerParams& params() const { return params_; }
  // Of the update after `step` others.
  double LearningRate(int64_t step) const;

  int slots() const;
  // "momentum", "accumulator", "m", "v", "linear": stable, they are part of checkpoint files.
  absl::string_view slot_name(int slot) const;
  // What every element of the slot starts from.
  double slot_initial(int slot) const;
  // Whether slots have one value a row.
  bool slots_per_row() const { return kind_ == OptimizerKind::kRowwiseAdagrad; }

  // Whether a sparse gradient changes rows that it does not name.
  bool SparseMovesAllRows() const { return kind_ == OptimizerKind::kAdam; }

  // Applies `n` gradient rows [n, width]. Row i changes row ids[i] of the block, or row i when
  // `ids` is null; an id that comes twice is applied twice, in order. The caller has checked the
  // ids. `t` >= 1. T: float or double. Not for kNone.
  template <typename T>
  void Apply(const RowBlock& block, const int64_t* ids, int64_t n, const T* gradient,
             int64_t t) const;

  // Where SparseMovesAllRows: all of the block's `rows` take a gradient, most of them zeros.
  // `named` has the others, ascending, no row twice; see SummedRows. Rows are touched that can have
  // changed.
  template <typename T>
  void ApplyToAll(const RowBlock& block, int64_t rows, absl::Span<const RowGradient<T>> named,
                  int64_t t) const;

  // As Apply with values that are added to the weights; slots stay as they are.
  template <typename T>
  static void Add(const RowBlock& block, const int64_t* ids, int64_t n, const T* values);

 private:
  OptimizerKind kind_ = OptimizerKind::kNone;
  OptimizerParams params_;
  LearningRateSchedule schedule_;
};

}  // namespace coxswain
