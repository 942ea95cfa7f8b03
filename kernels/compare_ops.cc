// Comparisons, logic and choice.
//
//   Equal NotEqual Less LessEqual Greater GreaterEqual (a, b) -> bool, with broadcasting; numbers
//   LogicalAnd LogicalOr (a, b), LogicalNot (a): bool
//   Select(cond, a, b) = cond ? a : b, all of one shape; da = cond ? g : 0, db = cond ? 0 : g
//
// Comparisons and logic have no derivative.
#include "kernels/element_wise.h"
#include "kernels/register_list.h"
#include "runtime/tensor/broadcast.h"

namespace coxswain::kernels {
namespace {

#define COX_COMPARISON(name, expression)          \
  struct name {                                   \
    template <typename T>                         \
    static COX_SIMD_INLINE bool Apply(T a, T b) { \
      return expression;                          \
    }                                             \
  }
COX_COMPARISON(EqualOp, a == b);
COX_COMPARISON(NotEqualOp, a != b);
COX_COMPARISON(LessOp, a < b);
COX_COMPARISON(LessEqualOp, a <= b);
COX_COMPARISON(GreaterOp, a > b);
COX_COMPARISON(GreaterEqualOp, a >= b);
COX_COMPARISON(AndOp, a& b);
COX_COMPARISON(OrOp, a | b);
#undef COX_COMPARISON

absl::Status InferComparison(graph::InferenceContext* context) {
  RETURN_IF_ERROR(context->WantDType(0, {DType::kF32, DType::kF64, DType::kI32, DType::kI64}));
  RETURN_IF_ERROR(context->WantSameDType(0, 1));
  ASSIGN_OR_RETURN(Shape shape, BroadcastShapes(context->shape(0), context->shape(1)));
  context->AddOutput(DType::kBool, std::move(shape));
  return absl::OkStatus();
}

absl::Status InferLogic(graph::InferenceContext* context) {
  for (int i = 0; i < context->num_inputs(); ++i) {
    RETURN_IF_ERROR(context->WantDType(i, {DType::kBool}));
  }
  if (context->num_inputs() == 1) return InferLikeInput(context);
  ASSIGN_OR_RETURN(Shape shape, BroadcastShapes(context->shape(0), context->shape(1)));
  context->AddOutput(DType::kBool, std::move(shape));
  return absl::OkStatus();
}

absl::Status InferSelect(graph::InferenceContext* context) {
  RETURN_IF_ERROR(context->WantDType(0, {DType::kBool}));
  RETURN_IF_ERROR(context->WantSameDType(1, 2));
  ASSIGN_OR_RETURN(const Shape values, MergeInputs(*context, 1, 2));
  auto shape = MergeShapes(context->shape(0), values);
  if (!shape.ok()) return Annotate(shape.status(), "inputs 0 and 1");
  context->AddOutput(context->dtype(1), *std::move(shape));
  return absl::OkStatus();
}

absl::Status SelectGradient(graph::GradientContext* context) {
  const Output g = context->output_gradient(0), cond = context->input(0);
  const Output zeros = context->Op("ZerosLike", {g});
  context->SetInputGradient(1, context->Op("Select", {cond, g, zeros}));
  context->SetInputGradient(2, context->Op("Select", {cond, zeros, g}));
  return absl::OkStatus();
}

template <typename Op>
absl::Status ComparisonCompute(graph::KernelContext* context) {
  return DispatchNumber(context->input(0).dtype(),
                        [&](auto t) { return BinaryCompute<Op, decltype(t), bool>(context); });
}

absl::Status NotCompute(graph::KernelContext* context) {
  RETURN_IF_ERROR(WantDType(*context, 0, {DType::kBool}));
  Tensor out = context->ForwardOrAllocate(0, DType::kBool, context->input(0).shape());
  const bool* x = context->input(0).data<bool>();
  bool* result = out.mutable_data<bool>();
  context->pool()->ParallelFor(out.num_elements(), kElementGrain, [&](int64_t begin, int64_t end) {
    COX_SIMD_LOOP
    for (int64_t i = begin; i < end; ++i) result[i] = !x[i];
  });
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

absl::Status SelectCompute(graph::KernelContext* context) {
  RETURN_IF_ERROR(WantSameInputs(*context, 1, 2));
  RETURN_IF_ERROR(WantDType(*context, 0, {DType::kBool}));
  RETURN_IF_ERROR(WantInputShape(*context, 0, context->input(1).shape()));
  return DispatchBytes(context->input(1).dtype(), [&](auto t) {
    using T = decltype(t);
    Tensor out =
        context->ForwardAnyOrAllocate(context->input(1).dtype(), context->input(1).shape());
    const bool* cond = context->input(0).data<bool>();
    const T* a = static_cast<const T*>(context->input(1).raw());
    const T* b = static_cast<const T*>(context->input(2).raw());
    T* result = static_cast<T*>(out.mutable_raw());
    context->pool()->ParallelFor(out.num_elements(), kElementGrain,
                                 [&](int64_t begin, int64_t end) {
                                   RunSimd([=]() COX_SIMD_BODY {
                                     COX_SIMD_LOOP
                                     for (int64_t i = begin; i < end; ++i) {
                                       const T x = a[i], y = b[i];
                                       result[i] = cond[i] ? x : y;
                                     }
                                   });
                                 });
    context->set_output(0, std::move(out));
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterCompareOps(graph::OpRegistry* registry) {
  struct Line {
    const char* name;
    int inputs;
    absl::Status (*infer)(graph::InferenceContext*);
    absl::Status (*compute)(graph::KernelContext*);
  };
  const Line lines[] = {
      {"Equal", 2, InferComparison, ComparisonCompute<EqualOp>},
      {"NotEqual", 2, InferComparison, ComparisonCompute<NotEqualOp>},
      {"Less", 2, InferComparison, ComparisonCompute<LessOp>},
      {"LessEqual", 2, InferComparison, ComparisonCompute<LessEqualOp>},
      {"Greater", 2, InferComparison, ComparisonCompute<GreaterOp>},
      {"GreaterEqual", 2, InferComparison, ComparisonCompute<GreaterEqualOp>},
      {"LogicalAnd", 2, InferLogic, BinaryCompute<AndOp, bool, bool>},
      {"LogicalOr", 2, InferLogic, BinaryCompute<OrOp, bool, bool>},
      {"LogicalNot", 1, InferLogic, NotCompute},
  };
  for (const Line& line : lines) {
    registry->Register({.name = line.name,
                        .min_inputs = line.inputs,
                        .max_inputs = line.inputs,
                        .not_differentiable = true,
                        .infer = line.infer});
    registry->RegisterKernel(line.name, graph::StatelessKernel(line.compute));
  }
  registry->Register({.name = "Select",
                      .min_inputs = 3,
                      .max_inputs = 3,
                      .infer = InferSelect,
                      .gradient = SelectGradient});
  registry->RegisterKernel("Select", graph::StatelessKernel(SelectCompute));
}

}  // namespace coxswain::kernels
