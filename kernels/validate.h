// Checks of an op's inputs. They are made twice: when the graph is built, where dimensions may be
// unknown, and in every run, where they are known, because a tensor may come from another process.
// An op says them once, as a template over the two contexts:
//
//   template <typename Context>
//   absl::Status CheckInputs(const Context& c) {
//     RETURN_IF_ERROR(WantFloat(c, 0));
//     RETURN_IF_ERROR(WantRank(c, 0, 2));
//     ...
//   }
#pragma once

#include <initializer_list>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/graph/kernel.h"

namespace coxswain::kernels {

inline DType DTypeOfInput(const graph::InferenceContext& c, int i) { return c.dtype(i); }
inline DType DTypeOfInput(const graph::KernelContext& c, int i) { return c.input(i).dtype(); }
inline const Shape& ShapeOfInput(const graph::InferenceContext& c, int i) { return c.shape(i); }
inline const Shape& ShapeOfInput(const graph::KernelContext& c, int i) {
  return c.input(i).shape();
}

// What `check` says of the inputs of a run. For errors: it copies all types.
template <typename Check>
absl::Status CheckAsBuilt(const graph::KernelContext& c, Check check) {
  std::vector<TensorType> types;
  for (int i = 0; i < c.num_inputs(); ++i) {
    types.push_back({c.input(i).dtype(), c.input(i).shape()});
  }
  const graph::Node none;
  return check(graph::InferenceContext(none, std::move(types)));
}

// InvalidArgument unless input i has the rank.
inline absl::Status WantRank(const graph::InferenceContext& c, int i, int rank) {
  return c.WantRank(i, rank);
}
inline absl::Status WantRank(const graph::KernelContext& c, int i, int rank) {
  if (c.input(i).rank() == rank) return absl::OkStatus();
  return CheckAsBuilt(
      c, [&](const graph::InferenceContext& built) { return built.WantRank(i, rank); });
}

// InvalidArgument unless input i has one of the dtypes.
inline absl::Status WantDType(const graph::InferenceContext& c, int i,
                              std::initializer_list<DType> dtypes) {
  return c.WantDType(i, dtypes);
}
inline absl::Status WantDType(const graph::KernelContext& c, int i,
                              std::initializer_list<DType> dtypes) {
  for (const DType dtype : dtypes) {
    if (c.input(i).dtype() == dtype) return absl::OkStatus();
  }
  return CheckAsBuilt(
      c, [&](const graph::InferenceContext& built) { return built.WantDType(i, dtypes); });
}

// InvalidArgument unless input i is f32 or f64.
template <typename Context>
absl::Status WantFloat(const Context& c, int i) {
  return WantDType(c, i, {DType::kF32, DType::kF64});
}

// InvalidArgument for a scalar: input i must have rows.
template <typename Context>
absl::Status WantRows(const Context& c, int i) {
  if (ShapeOfInput(c, i).rank() >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("input ", i, ": wanted rank 1 or more, found a scalar"));
}

// InvalidArgument unless inputs i and j have the same dtype.
inline absl::Status WantSameDType(const graph::InferenceContext& c, int i, int j) {
  return c.WantSameDType(i, j);
}
inline absl::Status WantSameDType(const graph::KernelContext& c, int i, int j) {
  if (c.input(i).dtype() == c.input(j).dtype()) return absl::OkStatus();
  return CheckAsBuilt(
      c, [&](const graph::InferenceContext& built) { return built.WantSameDType(i, j); });
}

// The one dimension that two stand for, of which either may be unknown.
// Errors: InvalidArgument when both are known and differ; `what` names the dimension.
inline absl::StatusOr<int64_t> MergeDims(int64_t a, int64_t b, absl::string_view what) {
  if (a == kUnknownDim) return b;
  if (b == kUnknownDim || a == b) return a;
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": wanted the same on both sides, found ", a, " and ", b));
}

// The one shape that two stand for: where a dimension of one is unknown, the other's counts.
// Errors: InvalidArgument when they cannot be the same.
inline absl::StatusOr<Shape> MergeShapes(const Shape& a, const Shape& b) {
  Shape merged = a;
  bool same = a.rank() == b.rank();
  for (int i = 0; same && i < a.rank(); ++i) {
    if (merged.dim(i) == kUnknownDim) merged.set_dim(i, b.dim(i));
    same = b.dim(i) == kUnknownDim || b.dim(i) == merged.dim(i);
  }
  if (same) return merged;
  return absl::InvalidArgumentError(
      absl::StrCat("wanted the same shape, found ", a.ToString(), " and ", b.ToString()));
}

// The same for inputs i and j.
inline absl::StatusOr<Shape> MergeInputs(const graph::InferenceContext& context, int i, int j) {
  auto merged = MergeShapes(context.shape(i), context.shape(j));
  if (merged.ok()) return merged;
  return Annotate(merged.status(), absl::StrCat("inputs ", i, " and ", j));
}

// InvalidArgument unless inputs i and j of a run have the same dtype and shape.
inline absl::Status WantSameInputs(const graph::KernelContext& context, int i, int j) {
  const Tensor& a = context.input(i);
  const Tensor& b = context.input(j);
  if (a.dtype() == b.dtype() && a.shape() == b.shape()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "inputs ", i, " and ", j, ": wanted the same dtype and shape, found ", DTypeName(a.dtype()),
      a.shape().ToString(), " and ", DTypeName(b.dtype()), b.shape().ToString()));
}

// InvalidArgument unless input i of a run has exactly this shape.
inline absl::Status WantInputShape(const graph::KernelContext& context, int i, const Shape& shape) {
  if (context.input(i).shape() == shape) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("input ", i, ": wanted shape ", shape.ToString(),
                                                 ", found ", context.input(i).shape().ToString()));
}

}  // namespace coxswain::kernels
