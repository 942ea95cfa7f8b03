// Functions of one input, element by element; f32 and f64. y = f(x), and dx from g = dy:
//
//   Neg -x: -g              Exp e^x: g y                Log ln x: g / x
//   Square x^2: 2 g x       Sqrt: g / (2 y)             Rsqrt 1/sqrt x: -g y^3 / 2
//   Abs |x|: g sign x       Sign: none (0 almost everywhere)
//   Reciprocal 1/x: -g y^2  Softplus ln(1 + e^x): g sigmoid x
//   Relu max(x, 0): ReluGrad(g, y) = y > 0 ? g : 0
//   Tanh: TanhGrad(g, y) = g (1 - y^2)      Sigmoid 1/(1 + e^-x): SigmoidGrad(g, y) = g y (1 - y)
//
// The gradients of the last three take the output, so that the input need not be kept.
#include <cmath>

#include "kernels/cpu/vector_math.h"
#include "kernels/element_wise.h"
#include "kernels/register_list.h"

namespace coxswain::kernels {
namespace {

#define COX_UNARY(name, expression)       \
  struct name {                           \
    template <typename T>                 \
    static COX_SIMD_INLINE T Apply(T x) { \
      return expression;                  \
    }                                     \
  }
COX_UNARY(NegOp, -x);
COX_UNARY(SquareOp, x* x);
COX_UNARY(ReciprocalOp, T{1} / x);
COX_UNARY(AbsOp, x < T{0} ? -x : x + T{0});  // + 0 turns -0 into 0
COX_UNARY(SignOp, x > T{0} ? T{1} : (x < T{0} ? T{-1} : x));
COX_UNARY(ReluOp, x < T{0} ? T{0} : x);  // NaN stays
#undef COX_UNARY

// One function for f32, written for vectors, and one for f64, the C library's.
#define COX_FUNCTION(name, single, wide)                           \
  struct name {                                                    \
    static COX_SIMD_INLINE float Apply(float x) { return single; } \
    static COX_SIMD_INLINE double Apply(double x) { return wide; } \
  }
COX_FUNCTION(ExpOp, FastExp(x), std::exp(x));
COX_FUNCTION(LogOp, FastLog(x), std::log(x));
COX_FUNCTION(TanhOp, FastTanh(x), std::tanh(x));
COX_FUNCTION(SigmoidOp, FastSigmoid(x), 1.0 / (1.0 + std::exp(-x)));
COX_FUNCTION(SoftplusOp, FastSoftplus(x),
             (x < 0.0 ? 0.0 : x) + std::log1p(std::exp(-std::fabs(x))));
COX_FUNCTION(SqrtOp, __builtin_sqrtf(x), __builtin_sqrt(x));
COX_FUNCTION(RsqrtOp, 1.0f / __builtin_sqrtf(x), 1.0 / __builtin_sqrt(x));
#undef COX_FUNCTION

struct ReluGradOp {
  template <typename T>
  static COX_SIMD_INLINE T Apply(T g, T y) {
    return y > T{0} ? g : T{0};
  }
};
struct TanhGradOp {
  template <typename T>
  static COX_SIMD_INLINE T Apply(T g, T y) {
    return g * (T{1} - y * y);
  }
};
struct SigmoidGradOp {
  template <typename T>
  static COX_SIMD_INLINE T Apply(T g, T y) {
    return g * y * (T{1} - y);
  }
};

absl::Status InferUnary(graph::InferenceContext* context) {
  RETURN_IF_ERROR(context->WantDType(0, {DType::kF32, DType::kF64}));
  return InferLikeInput(context);
}

absl::Status InferActivationGrad(graph::InferenceContext* context) {
  RETURN_IF_ERROR(context->WantDType(0, {DType::kF32, DType::kF64}));
  RETURN_IF_ERROR(context->WantSameDType(0, 1));
  ASSIGN_OR_RETURN(Shape shape, MergeInputs(*context, 0, 1));
  context->AddOutput(context->dtype(0), std::move(shape));
  return absl::OkStatus();
}

using Gradient = absl::Status (*)(graph::GradientContext*);

// A gradient function that is one expression of c (the context), g, x and y.
#define COX_GRADIENT(expression)                                                                \
  [](graph::GradientContext* c) -> absl::Status {                                               \
    [[maybe_unused]] const Output g = c->output_gradient(0), x = c->input(0), y = c->output(0); \
    c->SetInputGradient(0, expression);                                                         \
    return absl::OkStatus();                                                                    \
  }

Output Constant(graph::GradientContext* c, double value) {
  return FloatConstant(c, c->input_type(0).dtype, value);
}

// r = ReluGrad(g, y): linear in g; y only decides.
absl::Status ReluGradGradient(graph::GradientContext* c) {
  c->SetInputGradient(0, c->Op("ReluGrad", {c->output_gradient(0), c->input(1)}));
  return absl::OkStatus();
}

// r = g (1 - y^2): dr/dy = -2 g y.
absl::Status TanhGradGradient(graph::GradientContext* c) {
  const Output upper = c->output_gradient(0), g = c->input(0), y = c->input(1);
  c->SetInputGradient(0, c->Op("TanhGrad", {upper, y}));
  c->SetInputGradient(
      1, c->Op("Mul", {upper, c->Op("Mul", {Constant(c, -2.0), c->Op("Mul", {g, y})})}));
  return absl::OkStatus();
}

// r = g y (1 - y): dr/dy = g (1 - 2 y).
absl::Status SigmoidGradGradient(graph::GradientContext* c) {
  const Output upper = c->output_gradient(0), g = c->input(0), y = c->input(1);
  c->SetInputGradient(0, c->Op("SigmoidGrad", {upper, y}));
  const Output slope = c->Op("Sub", {Constant(c, 1.0), c->Op("Mul", {Constant(c, 2.0), y})});
  c->SetInputGradient(1, c->Op("Mul", {upper, c->Op("Mul", {g, slope})}));
  return absl::OkStatus();
}

struct UnaryLine {
  const char* name;
  Gradient gradient;
  absl::Status (*compute)(graph::KernelContext*, int64_t grain);
  int64_t grain;
};

constexpr int64_t kFunctionGrain = kElementGrain / 4;  // of functions that take longer than reading

void RegisterUnary(graph::OpRegistry* registry, const UnaryLine& line) {
  registry->Register({.name = line.name,
                      .min_inputs = 1,
                      .max_inputs = 1,
                      .not_differentiable = line.gradient == nullptr,
                      .infer = InferUnary,
                      .gradient = line.gradient});
  const auto compute = line.compute;
  const int64_t grain = line.grain;
  registry->RegisterKernel(line.name,
                           graph::StatelessKernel([compute, grain](graph::KernelContext* context) {
                             return compute(context, grain);
                           }));
}

void RegisterActivationGrad(graph::OpRegistry* registry, const char* name, Gradient gradient,
                            absl::Status (*compute)(graph::KernelContext*)) {
  registry->Register({.name = name,
                      .min_inputs = 2,
                      .max_inputs = 2,
                      .infer = InferActivationGrad,
                      .gradient = gradient});
  registry->RegisterKernel(name, graph::StatelessKernel(compute));
}

}  // namespace

void RegisterUnaryOps(graph::OpRegistry* registry) {
  const UnaryLine lines[] = {
      {"Neg", COX_GRADIENT(c->Op("Neg", {g})), UnaryCompute<NegOp>, kElementGrain},
      {"Exp", COX_GRADIENT(c->Op("Mul", {g, y})), UnaryCompute<ExpOp>, kFunctionGrain},
      {"Log", COX_GRADIENT(c->Op("Div", {g, x})), UnaryCompute<LogOp>, kFunctionGrain},
      {"Square", COX_GRADIENT(c->Op("Mul", {g, c->Op("Mul", {x, Constant(c, 2.0)})})),
       UnaryCompute<SquareOp>, kElementGrain},
      {"Sqrt", COX_GRADIENT(c->Op("Div", {c->Op("Mul", {g, Constant(c, 0.5)}), y})),
       UnaryCompute<SqrtOp>, kElementGrain},
      {"Rsqrt",
       COX_GRADIENT(c->Op(
           "Mul", {c->Op("Mul", {g, Constant(c, -0.5)}), c->Op("Mul", {y, c->Op("Square", {y})})})),
       UnaryCompute<RsqrtOp>, kElementGrain},
      {"Abs", COX_GRADIENT(c->Op("Mul", {g, c->Op("Sign", {x})})), UnaryCompute<AbsOp>,
       kElementGrain},
      {"Sign", nullptr, UnaryCompute<SignOp>, kElementGrain},
      {"Tanh", COX_GRADIENT(c->Op("TanhGrad", {g, y})), UnaryCompute<TanhOp>, kFunctionGrain},
      {"Sigmoid", COX_GRADIENT(c->Op("SigmoidGrad", {g, y})), UnaryCompute<SigmoidOp>,
       kFunctionGrain},
      {"Relu", COX_GRADIENT(c->Op("ReluGrad", {g, y})), UnaryCompute<ReluOp>, kElementGrain},
      {"Softplus", COX_GRADIENT(c->Op("Mul", {g, c->Op("Sigmoid", {x})})), UnaryCompute<SoftplusOp>,
       kFunctionGrain},
      {"Reciprocal", COX_GRADIENT(c->Op("Neg", {c->Op("Mul", {g, c->Op("Square", {y})})})),
       UnaryCompute<ReciprocalOp>, kElementGrain},
  };
  for (const UnaryLine& line : lines) RegisterUnary(registry, line);
  RegisterActivationGrad(registry, "ReluGrad", ReluGradGradient, SameShapeCompute<ReluGradOp>);
  RegisterActivationGrad(registry, "TanhGrad", TanhGradGradient, SameShapeCompute<TanhGradOp>);
  RegisterActivationGrad(registry, "SigmoidGrad", SigmoidGradGradient,
                         SameShapeCompute<SigmoidGradOp>);
}

}  // namespace coxswain::kernels
