// Functions of one input, element by element; f32 and f64. The formulas are in
// kernels/unary_ops.cc.
#include "kernels/cuda/op_list.h"

namespace coxswain::cuda {
namespace {

#define COX_UNARY(name, expression)  \
  struct name {                      \
    template <typename T>            \
    COX_DEVICE static T Apply(T x) { \
      return expression;             \
    }                                \
  }
COX_UNARY(NegOp, -x);
COX_UNARY(SquareOp, x* x);
COX_UNARY(ReciprocalOp, T{1} / x);
COX_UNARY(AbsOp, x < T{0} ? -x : x + T{0});  // + 0 turns -0 into 0
COX_UNARY(SignOp, x > T{0} ? T{1} : (x < T{0} ? T{-1} : x));
COX_UNARY(ReluOp, x < T{0} ? T{0} : x);  // NaN stays
COX_UNARY(ExpOp, Exp(x));
COX_UNARY(LogOp, Log(x));
COX_UNARY(TanhOp, Tanh(x));
COX_UNARY(SigmoidOp, T{1} / (T{1} + Exp(-x)));
COX_UNARY(SoftplusOp, (x < T{0} ? T{0} : x) + Log1p(Exp(x < T{0} ? x : -x)));
COX_UNARY(SqrtOp, Sqrt(x));
COX_UNARY(RsqrtOp, T{1} / Sqrt(x));
#undef COX_UNARY

// Of the gradient g and the output y.
struct ReluGradOp {
  template <typename T>
  COX_DEVICE static T Apply(T g, T y) {
    return y > T{0} ? g : T{0};
  }
};
struct TanhGradOp {
  template <typename T>
  COX_DEVICE static T Apply(T g, T y) {
    return g * (T{1} - y * y);
  }
};
struct SigmoidGradOp {
  template <typename T>
  COX_DEVICE static T Apply(T g, T y) {
    return g * y * (T{1} - y);
  }
};

template <typename F, typename T>
struct OfOne {
  const T* x;
  COX_DEVICE T operator()(int64_t i) const { return F::Apply(x[i]); }
};
template <typename F, typename T>
struct OfTwo {
  const T *g, *y;
  COX_DEVICE T operator()(int64_t i) const { return F::Apply(g[i], y[i]); }
};

template <typename F>
Status RunUnary(const Run& run) {
  return DispatchFloat(run.input(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return FillElements(run.queue(), Data<T>(run.output(0)), Elements(run.output(0)),
                        OfOne<F, T>{Data<T>(run.input(0))});
  });
}

template <typename F>
Status RunActivationGrad(const Run& run) {
  return DispatchFloat(run.input(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return FillElements(run.queue(), Data<T>(run.output(0)), Elements(run.output(0)),
                        OfTwo<F, T>{Data<T>(run.input(0)), Data<T>(run.input(1))});
  });
}

}  // namespace

void AddUnaryOps(OpTable* table) {
  table->Add("Neg", Floats(), RunUnary<NegOp>);
  table->Add("Exp", Floats(), RunUnary<ExpOp>);
  table->Add("Log", Floats(), RunUnary<LogOp>);
  table->Add("Square", Floats(), RunUnary<SquareOp>);
  table->Add("Sqrt", Floats(), RunUnary<SqrtOp>);
  table->Add("Rsqrt", Floats(), RunUnary<RsqrtOp>);
  table->Add("Abs", Floats(), RunUnary<AbsOp>);
  table->Add("Sign", Floats(), RunUnary<SignOp>);
  table->Add("Tanh", Floats(), RunUnary<TanhOp>);
  table->Add("Sigmoid", Floats(), RunUnary<SigmoidOp>);
  table->Add("Relu", Floats(), RunUnary<ReluOp>);
  table->Add("Softplus", Floats(), RunUnary<SoftplusOp>);
  table->Add("Reciprocal", Floats(), RunUnary<ReciprocalOp>);
  table->Add("ReluGrad", Floats(), RunActivationGrad<ReluGradOp>);
  table->Add("TanhGrad", Floats(), RunActivationGrad<TanhGradOp>);
  table->Add("SigmoidGrad", Floats(), RunActivationGrad<SigmoidGradOp>);
}

}  // namespace coxswain::cuda
