// Broadcasting as ops of its own, for gradients of ops that broadcast.
//
//   SumToLike(x, like):      x summed to the shape of `like`, which broadcasts to x's shape
//                            dx = BroadcastLike(g, x)
//   BroadcastLike(x, like):  x repeated to the shape of `like`
//                            dx = SumToLike(g, x)
//
// Only the shape of `like` counts, and it is taken when the op runs: so batches of unknown size
// work. When the shapes are equal, x itself is passed on. `like` gets no gradient. f32 and f64;
// sums also i64.
#include "kernels/cpu/reduction.h"
#include "kernels/element_wise.h"
#include "kernels/register_list.h"
#include "runtime/tensor/broadcast.h"

namespace coxswain::kernels {
namespace {

absl::Status InferSumToLike(graph::InferenceContext* context) {
  RETURN_IF_ERROR(context->WantDType(0, {DType::kF32, DType::kF64, DType::kI64}));
  if (context->shape(1).rank() > context->shape(0).rank()) {
    return context->Error(
        absl::StrCat("inputs 0 and 1: wanted the second to broadcast to the first, found ",
                     context->input(0).ToString(), " and ", context->input(1).ToString()));
  }
  RETURN_IF_ERROR(BroadcastShapes(context->shape(0), context->shape(1)).status());
  context->AddOutput(context->dtype(0), context->shape(1));
  return absl::OkStatus();
}

absl::Status InferBroadcastLike(graph::InferenceContext* context) {
  RETURN_IF_ERROR(context->WantDType(0, {DType::kF32, DType::kF64}));
  if (context->shape(0).rank() > context->shape(1).rank()) {
    return context->Error(
        absl::StrCat("inputs 0 and 1: wanted the first to broadcast to the second, found ",
                     context->input(0).ToString(), " and ", context->input(1).ToString()));
  }
  RETURN_IF_ERROR(BroadcastShapes(context->shape(0), context->shape(1)).status());
  context->AddOutput(context->dtype(0), context->shape(1));
  return absl::OkStatus();
}

absl::Status SumToLikeGradient(graph::GradientContext* context) {
  context->SetInputGradient(
      0, context->Op("BroadcastLike", {context->output_gradient(0), context->input(0)}));
  return absl::OkStatus();
}

absl::Status BroadcastLikeGradient(graph::GradientContext* context) {
  context->SetInputGradient(
      0, context->Op("SumToLike", {context->output_gradient(0), context->input(0)}));
  return absl::OkStatus();
}

absl::Status SumToLikeCompute(graph::KernelContext* context) {
  const Tensor& x = context->input(0);
  const Shape& like = context->input(1).shape();
  if (x.shape() == like) {
    context->set_output(0, x);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const AxisMask axes, BroadcastAxes(x.shape(), like));
  ASSIGN_OR_RETURN(const Tensor sum, Reduce(ReduceKind::kSum, x, axes, context->pool()));
  context->set_output(0, sum.Reshaped(like));
  return absl::OkStatus();
}

struct FirstOp {
  template <typename T>
  static COX_SIMD_INLINE T Apply(T a, T) {
    return a;
  }
};

absl::Status BroadcastLikeCompute(graph::KernelContext* context) {
  const Tensor& x = context->input(0);
  const Shape& like = context->input(1).shape();
  if (x.shape() == like) {
    context->set_output(0, x);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(BroadcastAxes(like, x.shape()).status());  // x broadcasts to `like`, not beyond
  ASSIGN_OR_RETURN(const BroadcastPlan plan, PlanBroadcast(x.shape(), like));
  return DispatchFloat(x.dtype(), [&](auto t) {
    using T = decltype(t);
    Tensor out(x.dtype(), like);
    const T* in = x.data<T>();
    T* result = out.mutable_data<T>();
    const int64_t stride = plan.a_strides.back();
    ForEachRow(plan, context->pool(), [&](int64_t ix, int64_t, int64_t io, int64_t n) {
      // The second operand is not read: the result stands in for memory of the right size.
      BinaryRow<FirstOp, T, T>(in + ix, stride, result + io, 1, result + io, n);
    });
    context->set_output(0, std::move(out));
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterBroadcastOps(graph::OpRegistry* registry) {
  registry->Register({.name = "SumToLike",
                      .min_inputs = 2,
                      .max_inputs = 2,
                      .infer = InferSumToLike,
                      .gradient = SumToLikeGradient});
  registry->RegisterKernel("SumToLike", graph::StatelessKernel(SumToLikeCompute));
  registry->Register({.name = "BroadcastLike",
                      .min_inputs = 2,
                      .max_inputs = 2,
                      .infer = InferBroadcastLike,
                      .gradient = BroadcastLikeGradient});
  registry->RegisterKernel("BroadcastLike", graph::StatelessKernel(BroadcastLikeCompute));
}

}  // namespace coxswain::kernels
