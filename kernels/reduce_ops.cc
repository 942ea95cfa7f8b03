// Reductions over dimensions.
//
//   ReduceSum, ReduceMean, ReduceMax (x; axes: [..], keep_dims: bool = false)
//     Without axes: over all of them. A negative axis counts from the end. f32, f64; sums also
//     i64. A mean over nothing is NaN.
//
//   ReduceGrad(g, like; axes, keep_dims, mean)
//     g repeated along the axes to the shape of `like`, and with `mean` divided by the number of
//     repetitions. It is the gradient of a sum and of a mean; its own gradient is that sum or mean.
//
//   y = sum x:   dx = ReduceGrad(g)
//   y = mean x:  dx = ReduceGrad(g; mean)
//   y = max x:   dx = g / count where x = y, and 0 elsewhere; count = the number of x that are
//                equal to y: ties share
#include <algorithm>
#include <limits>

#include "kernels/cpu/reduction.h"
#include "kernels/element_wise.h"
#include "kernels/register_list.h"

namespace coxswain::kernels {
namespace {

struct ReduceAttrs {
  std::vector<int64_t> axes;
  bool keep_dims = false;
  bool mean = false;
};

absl::StatusOr<ReduceAttrs> ReadReduce(const Attrs& attrs) {
  ReduceAttrs a;
  ASSIGN_OR_RETURN(a.axes, OptionalAttr<std::vector<int64_t>>(attrs, "axes", {}));
  ASSIGN_OR_RETURN(a.keep_dims, OptionalAttr<bool>(attrs, "keep_dims", false));
  ASSIGN_OR_RETURN(a.mean, OptionalAttr<bool>(attrs, "mean", false));
  return a;
}

absl::StatusOr<AxisMask> Mask(const ReduceAttrs& a, int rank) {
  AxisMask mask(rank, a.axes.empty());
  for (int64_t axis : a.axes) {
    ASSIGN_OR_RETURN(const int i, NormalizeAxis(axis, rank));
    if (mask[i]) return absl::InvalidArgumentError(absl::StrCat("axis ", i, " is named twice"));
    mask[i] = true;
  }
  return mask;
}

// With the reduced dimensions as 1, or left out.
Shape Reduced(const Shape& shape, const AxisMask& mask, bool keep_dims) {
  Shape reduced;
  for (int i = 0; i < shape.rank(); ++i) {
    if (!mask[i]) reduced.Append(shape.dim(i));
    if (mask[i] && keep_dims) reduced.Append(1);
  }
  return reduced;
}

absl::Status InferReduce(graph::InferenceContext* context) {
  ASSIGN_OR_RETURN(const ReduceAttrs a, ReadReduce(context->attrs()));
  ASSIGN_OR_RETURN(const AxisMask mask, Mask(a, context->shape(0).rank()));
  context->AddOutput(context->dtype(0), Reduced(context->shape(0), mask, a.keep_dims));
  return absl::OkStatus();
}

absl::Status InferSum(graph::InferenceContext* context) {
  RETURN_IF_ERROR(context->WantDType(0, {DType::kF32, DType::kF64, DType::kI64}));
  return InferReduce(context);
}

absl::Status InferFloat(graph::InferenceContext* context) {
  RETURN_IF_ERROR(context->WantDType(0, {DType::kF32, DType::kF64}));
  return InferReduce(context);
}

absl::Status InferReduceGrad(graph::InferenceContext* context) {
  RETURN_IF_ERROR(context->WantDType(0, {DType::kF32, DType::kF64}));
  ASSIGN_OR_RETURN(const ReduceAttrs a, ReadReduce(context->attrs()));
  ASSIGN_OR_RETURN(const AxisMask mask, Mask(a, context->shape(1).rank()));
  auto merged = MergeShapes(Reduced(context->shape(1), mask, a.keep_dims), context->shape(0));
  if (!merged.ok()) return Annotate(merged.status(), "input 1, reduced, and input 0");
  context->AddOutput(context->dtype(0), context->shape(1));
  return absl::OkStatus();
}

// The axes and keep_dims of this node, for a node that undoes or repeats it.
Attrs SameAxes(graph::GradientContext* context, bool mean) {
  const ReduceAttrs a = ReadReduce(context->attrs()).value();
  Attrs attrs = {{"axes", a.axes}, {"keep_dims", a.keep_dims}};
  if (mean) attrs["mean"] = true;
  return attrs;
}

absl::Status SumGradient(graph::GradientContext* context) {
  context->SetInputGradient(
      0, context->Op("ReduceGrad", {context->output_gradient(0), context->input(0)},
                     SameAxes(context, false)));
  return absl::OkStatus();
}

absl::Status MeanGradient(graph::GradientContext* context) {
  context->SetInputGradient(
      0, context->Op("ReduceGrad", {context->output_gradient(0), context->input(0)},
                     SameAxes(context, true)));
  return absl::OkStatus();
}

absl::Status MaxGradient(graph::GradientContext* context) {
  const Output x = context->input(0);
  const Attrs axes = SameAxes(context, false);
  const Output top = context->Op("ReduceGrad", {context->output(0), x}, axes);
  const Output is_top = context->Op("Cast", {context->Op("Equal", {x, top})},
                                    {{"dtype", context->input_type(0).dtype}});
  const Output count = context->Op("ReduceSum", {is_top}, axes);
  const Output share = context->Op("Div", {context->output_gradient(0), count});
  const Output spread = context->Op("ReduceGrad", {share, x}, axes);
  context->SetInputGradient(0, context->Op("Mul", {spread, is_top}));
  return absl::OkStatus();
}

absl::Status ReduceGradGradient(graph::GradientContext* context) {
  const bool mean = ReadReduce(context->attrs()).value().mean;
  context->SetInputGradient(
      0, context->Op(mean ? "ReduceMean" : "ReduceSum", {context->output_gradient(0)},
                     SameAxes(context, false)));
  return absl::OkStatus();
}

template <typename T>
void Scale(T* values, int64_t n, T factor) {
  RunSimd([=]() COX_SIMD_BODY {
    COX_SIMD_LOOP
    for (int64_t i = 0; i < n; ++i) values[i] *= factor;
  });
}

absl::Status ComputeReduce(const ReduceAttrs& a, graph::KernelContext* context, ReduceKind kind) {
  const Tensor& x = context->input(0);
  ASSIGN_OR_RETURN(const AxisMask mask, Mask(a, x.rank()));
  ASSIGN_OR_RETURN(const Tensor result, Reduce(kind, x, mask, context->pool()));
  context->set_output(0, result.Reshaped(Reduced(x.shape(), mask, a.keep_dims)));
  return absl::OkStatus();
}

absl::Status ComputeSum(const ReduceAttrs& a, graph::KernelContext* context) {
  return ComputeReduce(a, context, ReduceKind::kSum);
}
absl::Status ComputeMax(const ReduceAttrs& a, graph::KernelContext* context) {
  return ComputeReduce(a, context, ReduceKind::kMax);
}

absl::Status ComputeMean(const ReduceAttrs& a, graph::KernelContext* context) {
  const Tensor& x = context->input(0);
  ASSIGN_OR_RETURN(const AxisMask mask, Mask(a, x.rank()));
  int64_t count = 1;
  for (int i = 0; i < x.rank(); ++i) count *= mask[i] ? x.dim(i) : 1;
  return DispatchFloat(x.dtype(), [&](auto t) -> absl::Status {
    using T = decltype(t);
    ASSIGN_OR_RETURN(Tensor sum, Reduce(ReduceKind::kSum, x, mask, context->pool()));
    // A mean over dimensions of size 1 is x itself, which is not ours to scale.
    if (count != 1) {
      const double factor = count == 0 ? std::numeric_limits<double>::quiet_NaN() : 1.0 / count;
      Scale(sum.mutable_data<T>(), sum.num_elements(), static_cast<T>(factor));
    }
    context->set_output(0, sum.Reshaped(Reduced(x.shape(), mask, a.keep_dims)));
    return absl::OkStatus();
  });
}

struct TimesOp {
  template <typename T>
  static COX_SIMD_INLINE T Apply(T a, T b) {
    return a * b;
  }
};

absl::Status ComputeReduceGrad(const ReduceAttrs& a, graph::KernelContext* context) {
  const Tensor& g = context->input(0);
  const Shape& like = context->input(1).shape();
  ASSIGN_OR_RETURN(const AxisMask mask, Mask(a, like.rank()));
  RETURN_IF_ERROR(WantInputShape(*context, 0, Reduced(like, mask, a.keep_dims)));
  ASSIGN_OR_RETURN(const BroadcastPlan plan, PlanBroadcast(Reduced(like, mask, true), like));
  const double count = a.mean ? static_cast<double>(like.num_elements()) /
                                    static_cast<double>(std::max<int64_t>(1, g.num_elements()))
                              : 1.0;
  return DispatchFloat(g.dtype(), [&](auto t) {
    using T = decltype(t);
    Tensor out(g.dtype(), like);
    const T* in = g.data<T>();
    T* result = out.mutable_data<T>();
    const T factor = static_cast<T>(1.0 / std::max(1.0, count));
    const int64_t stride = plan.a_strides.back();
    ForEachRow(plan, context->pool(), [&](int64_t ig, int64_t, int64_t io, int64_t n) {
      if (stride == 0) {
        std::fill_n(result + io, n, in[ig] * factor);
      } else {
        BinaryRow<TimesOp, T, T>(in + ig, 1, &factor, 0, result + io, n);
      }
    });
    context->set_output(0, std::move(out));
    return absl::OkStatus();
  });
}

void RegisterReduction(graph::OpRegistry* registry, const char* name, int inputs,
                       absl::Status (*infer)(graph::InferenceContext*),
                       absl::Status (*gradient)(graph::GradientContext*),
                       absl::Status (*compute)(const ReduceAttrs&, graph::KernelContext*)) {
  registry->Register({.name = name,
                      .min_inputs = inputs,
                      .max_inputs = inputs,
                      .infer = infer,
                      .gradient = gradient,
                      .attrs = {"axes", "keep_dims", "mean"}});
  registry->RegisterKernel(name, AttrKernel<ReduceAttrs>(ReadReduce, compute));
}

}  // namespace

void RegisterReduceOps(graph::OpRegistry* registry) {
  RegisterReduction(registry, "ReduceSum", 1, InferSum, SumGradient, ComputeSum);
  RegisterReduction(registry, "ReduceMean", 1, InferFloat, MeanGradient, ComputeMean);
  RegisterReduction(registry, "ReduceMax", 1, InferFloat, MaxGradient, ComputeMax);
  RegisterReduction(registry, "ReduceGrad", 2, InferReduceGrad, ReduceGradGradient,
                    ComputeReduceGrad);
}

}  // namespace coxswain::kernels
