// Checks that kernels make of what only a run can show. Dtypes and known dimensions were checked
// when the graph was built; they are checked again because a tensor may come from another process.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/graph/kernel.h"

namespace coxswain {

// InvalidArgument unless input i has the dtype and the rank (-1: any).
inline absl::Status WantInput(const KernelContext& context, int i, DType dtype, int rank = -1) {
  const Tensor& t = context.input(i);
  if (t.dtype() == dtype && (rank < 0 || t.rank() == rank)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "input ", i, ": wanted ", DTypeName(dtype), rank < 0 ? "" : absl::StrCat(" of rank ", rank),
      ", found ", DTypeName(t.dtype()), t.shape().ToString()));
}

// The same for an input that may be f32 or f64.
inline absl::Status WantFloatInput(const KernelContext& context, int i, int rank = -1) {
  const DType found = context.input(i).dtype();
  return WantInput(context, i, found == DType::kF64 ? DType::kF64 : DType::kF32, rank);
}

// InvalidArgument unless input i has exactly this shape.
inline absl::Status WantInputShape(const KernelContext& context, int i, const Shape& shape) {
  if (context.input(i).shape() == shape) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("input ", i, ": wanted shape ", shape.ToString(),
                                                 ", found ", context.input(i).shape().ToString()));
}

// At graph building: the one dimension that two declared ones stand for, of which either may be
// unknown. Errors: InvalidArgument when both are known and differ; `what` names the dimension.
inline absl::StatusOr<int64_t> MergeDims(int64_t a, int64_t b, absl::string_view what) {
  if (a == kUnknownDim) return b;
  if (b == kUnknownDim || a == b) return a;
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": wanted the same on both sides, found ", a, " and ", b));
}

}  // namespace coxswain
