// Ops where values begin or pass through.
//
//   Const(; value: tensor)
//   Arg(; index: int, dtype, shape)   an argument of the function: the executor sets it, no kernel
//   Identity(x) = x, dx = g           StopGradient(x) = x, no gradient
//   ZerosLike(x), OnesLike(x)         of x's dtype and shape; no gradient
#include <algorithm>
#include <cstring>

#include "kernels/op_util.h"
#include "kernels/register_list.h"

namespace coxswain::kernels {
namespace {

absl::Status InferConst(graph::InferenceContext* context) {
  ASSIGN_OR_RETURN(const Tensor value, graph::GetAttr<Tensor>(context->attrs(), "value"));
  if (!value.has_value()) return context->Error("attribute 'value': wanted a value, found none");
  context->AddOutput(value.dtype(), value.shape());
  return absl::OkStatus();
}

absl::Status InferArg(graph::InferenceContext* context) {
  ASSIGN_OR_RETURN(const int64_t index, graph::GetAttr<int64_t>(context->attrs(), "index"));
  if (index < 0) {
    return context->Error(absl::StrCat("attribute 'index': wanted 0 or more, found ", index));
  }
  ASSIGN_OR_RETURN(const DType dtype, graph::GetAttr<DType>(context->attrs(), "dtype"));
  ASSIGN_OR_RETURN(Shape shape, graph::GetAttr<Shape>(context->attrs(), "shape"));
  if (dtype == DType::kInvalid) return context->Error("attribute 'dtype': wanted a dtype");
  context->AddOutput(dtype, std::move(shape));
  return absl::OkStatus();
}

absl::Status InferFillLike(graph::InferenceContext* context) {
  RETURN_IF_ERROR(context->WantDType(
      0, {DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kBool, DType::kBF16}));
  return InferLikeInput(context);
}

absl::Status IdentityGradient(graph::GradientContext* context) {
  context->SetInputGradient(0, context->output_gradient(0));
  return absl::OkStatus();
}

absl::StatusOr<Tensor> ReadConst(const Attrs& attrs) {
  return graph::GetAttr<Tensor>(attrs, "value");
}

absl::Status ConstCompute(const Tensor& value, graph::KernelContext* context) {
  context->set_output(0, value);
  return absl::OkStatus();
}

absl::Status IdentityCompute(graph::KernelContext* context) {
  context->set_output(0, context->input(0));
  return absl::OkStatus();
}

absl::Status ZerosCompute(graph::KernelContext* context) {
  const Tensor& x = context->input(0);
  Tensor out = context->ForwardOrAllocate(0, x.dtype(), x.shape());
  if (out.bytes() > 0) std::memset(out.mutable_raw(), 0, out.bytes());
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

absl::Status OnesCompute(graph::KernelContext* context) {
  const Tensor& x = context->input(0);
  Tensor out = context->ForwardOrAllocate(0, x.dtype(), x.shape());
  const int64_t n = out.num_elements();
  if (x.dtype() == DType::kBF16) {
    std::fill_n(out.mutable_data<BFloat16>(), n, BFloat16::FromFloat(1.0f));
  } else {
    RETURN_IF_ERROR((DispatchAmong<float, double, int32_t, int64_t, bool>(x.dtype(), [&](auto t) {
      std::fill_n(out.mutable_data<decltype(t)>(), n, static_cast<decltype(t)>(1));
      return absl::OkStatus();
    })));
  }
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

void RegisterPassing(graph::OpRegistry* registry, const char* name, bool not_differentiable,
                     absl::Status (*infer)(graph::InferenceContext*),
                     absl::Status (*compute)(graph::KernelContext*)) {
  registry->Register({.name = name,
                      .min_inputs = 1,
                      .max_inputs = 1,
                      .passes_on = compute == IdentityCompute,
                      .not_differentiable = not_differentiable,
                      .infer = infer,
                      .gradient = not_differentiable ? nullptr : IdentityGradient});
  registry->RegisterKernel(name, graph::StatelessKernel(compute));
}

}  // namespace

void RegisterSourceOps(graph::OpRegistry* registry) {
  registry->Register(
      {.name = "Const", .not_differentiable = true, .infer = InferConst, .attrs = {"value"}});
  registry->RegisterKernel("Const", AttrKernel<Tensor>(ReadConst, ConstCompute));
  registry->Register({.name = "Arg",
                      .not_differentiable = true,
                      .infer = InferArg,
                      .attrs = {"index", "dtype", "shape"}});
  RegisterPassing(registry, "Identity", false, InferLikeInput, IdentityCompute);
  RegisterPassing(registry, "StopGradient", true, InferLikeInput, IdentityCompute);
  RegisterPassing(registry, "ZerosLike", true, InferFillLike, ZerosCompute);
  RegisterPassing(registry, "OnesLike", true, InferFillLike, OnesCompute);
}

}  // namespace coxswain::kernels
