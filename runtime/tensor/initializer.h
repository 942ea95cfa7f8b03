// A variable's first values. Element (row, column) is a function of (seed, variable name, row,
// column) alone, so it does not depend on how rows are split into shards or on who computes it.
//
// `row` is the index in the variable's first dimension (0 for a scalar), `column` the offset within
// that row, row-major. Kinds and fields of InitializerSpec ("0 =": what a field left out means):
//
//   zeros, ones        an empty kind is zeros
//   constant           value
//   uniform            [low, high];  both 0 = [-0.05, 0.05], as in Keras
//   normal             mean, stddev;  stddev 0 = 0.05
//   truncated_normal   the same, drawn again when more than 2 stddev from the mean
//   glorot_uniform     [-a, a], a = sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010), with the
//                      fans of the variable's full shape: [n]: n, n; [a, b]: a, b; [..., a, b]:
//                      each times the product of the dimensions before
//
// Rows from zero_rows_from on (when it is not 0) are zeros, whatever the kind.
// Integer variables take zeros, ones and a whole constant. Thread model: immutable.
#pragma once

#include <cstdint>
#include <limits>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "coxswain/tensor.h"
#include "protos/variable.pb.h"

namespace coxswain {

class Initializer {
 public:
  // `shape` is the variable's full shape; of a hash table, whose rows are its ids, [-1, row...].
  // Errors: InvalidArgument for an unknown kind, a range that is empty or not finite, or a kind
  // that the dtype cannot hold.
  static absl::StatusOr<Initializer> Create(const proto::InitializerSpec& spec,
                                            absl::string_view variable, const Shape& shape,
                                            DType dtype);

  // Writes columns [0, out.size()) of row `row`. T: float, double or int64_t, as the dtype is.
  template <typename T>
  void FillRow(int64_t row, absl::Span<T> out) const;

 private:
  enum class Kind : uint8_t { kConstant, kUniform, kNormal, kTruncatedNormal };

  Kind kind_ = Kind::kConstant;
  double a_ = 0;       // constant's value, uniform's low, normal's mean
  double b_ = 0;       // uniform's high - low, normal's stddev
  uint64_t base_ = 0;  // hash of seed and name
  int64_t zero_from_ = std::numeric_limits<int64_t>::max();
};

}  // namespace coxswain
