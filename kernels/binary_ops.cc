// Arithmetic on two inputs, with NumPy's broadcasting.
//
//   Add  a + b      da = g            db = g
//   Sub  a - b      da = g            db = -g
//   Mul  a b        da = g b          db = g a
//   Div  a / b      da = g / b        db = -g (a / b) / b
//   Maximum, Minimum: the gradient goes to the input that was chosen, to a when both are equal.
//
// Each gradient is summed over the dimensions along which its input was repeated (SumToLike).
// f32 and f64; Add, Sub and Mul also i32 and i64, which wrap around.
#include "kernels/element_wise.h"
#include "kernels/register_list.h"
#include "runtime/tensor/broadcast.h"

namespace coxswain::kernels {
namespace {

// Arithmetic in the unsigned type: wraps instead of being undefined.
template <typename T>
struct WrappingType {
  using type = std::make_unsigned_t<T>;
};
template <>
struct WrappingType<float> {
  using type = float;
};
template <>
struct WrappingType<double> {
  using type = double;
};
template <typename T>
using Wrapping = typename WrappingType<T>::type;

struct AddOp {
  template <typename T>
  static COX_SIMD_INLINE T Apply(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};
struct SubOp {
  template <typename T>
  static COX_SIMD_INLINE T Apply(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
  }
};
struct MulOp {
  template <typename T>
  static COX_SIMD_INLINE T Apply(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};
struct DivOp {
  template <typename T>
  static COX_SIMD_INLINE T Apply(T a, T b) {
    return a / b;
  }
};
// A NaN on either side is the result.
struct MaximumOp {
  template <typename T>
  static COX_SIMD_INLINE T Apply(T a, T b) {
    return ((a >= b) | (a != a)) ? a : b;
  }
};
struct MinimumOp {
  template <typename T>
  static COX_SIMD_INLINE T Apply(T a, T b) {
    return ((a <= b) | (a != a)) ? a : b;
  }
};

absl::Status InferBroadcast(graph::InferenceContext* context) {
  RETURN_IF_ERROR(context->WantSameDType(0, 1));
  ASSIGN_OR_RETURN(Shape shape, BroadcastShapes(context->shape(0), context->shape(1)));
  context->AddOutput(context->dtype(0), std::move(shape));
  return absl::OkStatus();
}

absl::Status InferNumbers(graph::InferenceContext* context) {
  RETURN_IF_ERROR(context->WantDType(0, {DType::kF32, DType::kF64, DType::kI32, DType::kI64}));
  return InferBroadcast(context);
}

absl::Status InferFloats(graph::InferenceContext* context) {
  RETURN_IF_ERROR(context->WantDType(0, {DType::kF32, DType::kF64}));
  return InferBroadcast(context);
}

// `gradient`, which has the output's shape, summed to the shape of input i.
void SetSummed(graph::GradientContext* context, int i, Output gradient) {
  const auto shape = BroadcastShapes(context->input_type(0).shape, context->input_type(1).shape);
  // With unknown dimensions the two may differ in a run although they look the same.
  const bool same = shape.ok() && shape->IsFullyKnown() && *shape == context->input_type(i).shape;
  context->SetInputGradient(
      i, same ? gradient : context->Op("SumToLike", {gradient, context->input(i)}));
}

absl::Status AddGradient(graph::GradientContext* context) {
  SetSummed(context, 0, context->output_gradient(0));
  SetSummed(context, 1, context->output_gradient(0));
  return absl::OkStatus();
}

absl::Status SubGradient(graph::GradientContext* context) {
  SetSummed(context, 0, context->output_gradient(0));
  SetSummed(context, 1, context->Op("Neg", {context->output_gradient(0)}));
  return absl::OkStatus();
}

absl::Status MulGradient(graph::GradientContext* context) {
  const Output g = context->output_gradient(0);
  SetSummed(context, 0, context->Op("Mul", {g, context->input(1)}));
  SetSummed(context, 1, context->Op("Mul", {g, context->input(0)}));
  return absl::OkStatus();
}

absl::Status DivGradient(graph::GradientContext* context) {
  const Output scaled = context->Op("Div", {context->output_gradient(0), context->input(1)});
  SetSummed(context, 0, scaled);
  SetSummed(context, 1, context->Op("Neg", {context->Op("Mul", {scaled, context->output(0)})}));
  return absl::OkStatus();
}

// `chosen`: the comparison that holds where a is the result.
absl::Status ChoiceGradient(graph::GradientContext* context, const char* chosen) {
  const Output g = context->output_gradient(0);
  const Output zeros = context->Op("ZerosLike", {g});
  const Output a_chosen = context->Op(chosen, {context->input(0), context->input(1)});
  SetSummed(context, 0, context->Op("Select", {a_chosen, g, zeros}));
  SetSummed(context, 1, context->Op("Select", {a_chosen, zeros, g}));
  return absl::OkStatus();
}
absl::Status MaximumGradient(graph::GradientContext* context) {
  return ChoiceGradient(context, "GreaterEqual");
}
absl::Status MinimumGradient(graph::GradientContext* context) {
  return ChoiceGradient(context, "LessEqual");
}

template <typename Op>
absl::Status NumberCompute(graph::KernelContext* context) {
  return DispatchNumber(context->input(0).dtype(), [&](auto t) {
    return BinaryCompute<Op, decltype(t), decltype(t)>(context);
  });
}
template <typename Op>
absl::Status FloatCompute(graph::KernelContext* context) {
  return DispatchFloat(context->input(0).dtype(), [&](auto t) {
    return BinaryCompute<Op, decltype(t), decltype(t)>(context);
  });
}

}  // namespace

void RegisterBinaryOps(graph::OpRegistry* registry) {
  struct Line {
    const char* name;
    absl::Status (*infer)(graph::InferenceContext*);
    absl::Status (*gradient)(graph::GradientContext*);
    absl::Status (*compute)(graph::KernelContext*);
  };
  const Line lines[] = {
      {"Add", InferNumbers, AddGradient, NumberCompute<AddOp>},
      {"Sub", InferNumbers, SubGradient, NumberCompute<SubOp>},
      {"Mul", InferNumbers, MulGradient, NumberCompute<MulOp>},
      {"Div", InferFloats, DivGradient, FloatCompute<DivOp>},
      {"Maximum", InferFloats, MaximumGradient, FloatCompute<MaximumOp>},
      {"Minimum", InferFloats, MinimumGradient, FloatCompute<MinimumOp>},
  };
  for (const Line& line : lines) {
    registry->Register({.name = line.name,
                        .min_inputs = 2,
                        .max_inputs = 2,
                        .infer = line.infer,
                        .gradient = line.gradient});
    registry->RegisterKernel(line.name, graph::StatelessKernel(line.compute));
  }
}

}  // namespace coxswain::kernels
