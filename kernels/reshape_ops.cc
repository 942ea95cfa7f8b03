// The same elements under another shape; no bytes move. dx = ReshapeLike(g, x) for all of them.
//
//   Reshape(x; shape)       at most one dimension of `shape` is -1: what is left over
//   ReshapeLike(x, like)    the shape of `like`, in the run
//   ExpandDims(x; axis)     a dimension of size 1 before `axis`; -1: at the end
//   Squeeze(x; axis)        without the dimension `axis`, which must be 1
#include <algorithm>

#include "kernels/op_util.h"
#include "kernels/register_list.h"
#include "runtime/tensor/limits.h"

namespace coxswain::kernels {
namespace {

absl::StatusOr<Shape> ReadShape(const Attrs& attrs) {
  ASSIGN_OR_RETURN(Shape shape, graph::GetAttr<Shape>(attrs, "shape"));
  int open = 0;
  for (int64_t d : shape.dims()) {
    if (d < -1) {
      return absl::InvalidArgumentError(
          absl::StrCat("attribute 'shape': wanted dimensions of -1 or more, found ", d));
    }
    open += d == kUnknownDim;
  }
  if (open > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "attribute 'shape': wanted at most one open dimension, found ", shape.ToString()));
  }
  return shape;
}

absl::StatusOr<int64_t> ReadAxis(const Attrs& attrs) {
  return graph::GetAttr<int64_t>(attrs, "axis");
}

// `wanted` with its open dimension filled in. `x` is fully known.
absl::StatusOr<Shape> Fill(const Shape& x, Shape wanted) {
  const Shape asked = wanted;
  int open = -1;
  for (int i = 0; i < wanted.rank(); ++i) {
    if (wanted.dim(i) != kUnknownDim) continue;
    open = i;
    wanted.set_dim(i, 1);
  }
  ASSIGN_OR_RETURN(const int64_t known, CheckedElements(wanted));
  const int64_t n = x.num_elements();
  if (open >= 0 && known > 0 && n % known == 0) {
    wanted.set_dim(open, n / known);
    return wanted;
  }
  if (open < 0 && known == n) return wanted;
  return absl::InvalidArgumentError(
      absl::StrCat("cannot reshape ", x.ToString(), " of ", n, " elements to ", asked.ToString()));
}

absl::Status InferReshape(graph::InferenceContext* context) {
  ASSIGN_OR_RETURN(Shape shape, ReadShape(context->attrs()));
  if (context->shape(0).IsFullyKnown()) {
    ASSIGN_OR_RETURN(shape, Fill(context->shape(0), shape));
  }
  context->AddOutput(context->dtype(0), std::move(shape));
  return absl::OkStatus();
}

absl::Status InferReshapeLike(graph::InferenceContext* context) {
  const Shape &x = context->shape(0), &like = context->shape(1);
  if (x.IsFullyKnown() && like.IsFullyKnown()) RETURN_IF_ERROR(Fill(x, like).status());
  context->AddOutput(context->dtype(0), like);
  return absl::OkStatus();
}

absl::StatusOr<Shape> Expanded(const Shape& x, int64_t axis) {
  ASSIGN_OR_RETURN(const int at, NormalizeAxis(axis, x.rank() + 1));
  Shape shape;
  for (int i = 0; i <= x.rank(); ++i) {
    if (i == at) shape.Append(1);
    if (i < x.rank()) shape.Append(x.dim(i));
  }
  return shape;
}

absl::StatusOr<Shape> Squeezed(const Shape& x, int64_t axis) {
  ASSIGN_OR_RETURN(const int at, NormalizeAxis(axis, x.rank()));
  if (x.dim(at) != 1 && x.dim(at) != kUnknownDim) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted size 1 in dimension ", at, ", found ", x.ToString()));
  }
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != at) shape.Append(x.dim(i));
  }
  return shape;
}

template <absl::StatusOr<Shape> (*kShape)(const Shape&, int64_t)>
absl::Status InferAxis(graph::InferenceContext* context) {
  ASSIGN_OR_RETURN(const int64_t axis, ReadAxis(context->attrs()));
  ASSIGN_OR_RETURN(Shape shape, kShape(context->shape(0), axis));
  context->AddOutput(context->dtype(0), std::move(shape));
  return absl::OkStatus();
}

absl::Status Gradient(graph::GradientContext* context) {
  context->SetInputGradient(
      0, context->Op("ReshapeLike", {context->output_gradient(0), context->input(0)}));
  return absl::OkStatus();
}

absl::Status ReshapeCompute(const Shape& wanted, graph::KernelContext* context) {
  ASSIGN_OR_RETURN(Shape shape, Fill(context->input(0).shape(), wanted));
  context->set_output(0, context->input(0).Reshaped(std::move(shape)));
  return absl::OkStatus();
}

absl::Status ReshapeLikeCompute(graph::KernelContext* context) {
  return ReshapeCompute(context->input(1).shape(), context);
}

template <absl::StatusOr<Shape> (*kShape)(const Shape&, int64_t)>
absl::Status AxisCompute(const int64_t& axis, graph::KernelContext* context) {
  ASSIGN_OR_RETURN(Shape shape, kShape(context->input(0).shape(), axis));
  context->set_output(0, context->input(0).Reshaped(std::move(shape)));
  return absl::OkStatus();
}

void RegisterReshaping(graph::OpRegistry* registry, const char* name, int inputs,
                       std::vector<std::string> attrs,
                       absl::Status (*infer)(graph::InferenceContext*),
                       graph::KernelFactory kernel) {
  registry->Register({.name = name,
                      .min_inputs = inputs,
                      .max_inputs = inputs,
                      .passes_on = true,
                      .infer = infer,
                      .gradient = Gradient,
                      .attrs = std::move(attrs)});
  registry->RegisterKernel(name, std::move(kernel));
}

}  // namespace

void RegisterReshapeOps(graph::OpRegistry* registry) {
  RegisterReshaping(registry, "Reshape", 1, {"shape"}, InferReshape,
                    AttrKernel<Shape>(ReadShape, ReshapeCompute));
  RegisterReshaping(registry, "ReshapeLike", 2, {}, InferReshapeLike,
                    graph::StatelessKernel(ReshapeLikeCompute));
  RegisterReshaping(registry, "ExpandDims", 1, {"axis"}, InferAxis<Expanded>,
                    AttrKernel<int64_t>(ReadAxis, AxisCompute<Expanded>));
  RegisterReshaping(registry, "Squeeze", 1, {"axis"}, InferAxis<Squeezed>,
                    AttrKernel<int64_t>(ReadAxis, AxisCompute<Squeezed>));
}

}  // namespace coxswain::kernels
