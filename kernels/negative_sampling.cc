// The loss of negative sampling: what pairs that do not occur add to a logistic loss. The columns
// are a sample that all rows share.
//
//   NegativeSamplingLoss(logits x [C,N]) -> loss [C], backprop [C,N]
//     loss_c = sum_n log(1 + e^x_cn),  backprop_cn = 1 / (1 + e^-x_cn),  dx_cn = g_c backprop_cn
//
// These are the row sums of SigmoidCrossEntropy with labels of 0, but in one pass, with one
// exponential for loss and gradient. Up to 64 columns share one logarithm, that of the product of
// their 1 + e^-|x|, each of which is at most 2. `backprop` has no derivative of its own.

#include <algorithm>
#include <cmath>

#include "kernels/cpu/row_math.h"
#include "kernels/op_util.h"
#include "kernels/register_list.h"
#include "runtime/graph/builder.h"

namespace coxswain::kernels {
namespace {

template <typename Context>
absl::Status CheckLogits(const Context& c) {
  RETURN_IF_ERROR(WantRank(c, 0, 2));
  return WantFloat(c, 0);
}

absl::Status InferLoss(graph::InferenceContext* c) {
  RETURN_IF_ERROR(CheckLogits(*c));
  c->AddOutput(c->dtype(0), Shape{c->shape(0).dim(0)});
  c->AddOutput(c->dtype(0), c->shape(0));
  return absl::OkStatus();
}

absl::Status LossGradient(graph::GradientContext* c) {
  if (c->output_gradient(1).valid()) {
    return absl::InvalidArgumentError("output 1 (backprop) has no derivative");
  }
  c->SetInputGradient(0, c->Op("ScaleRows", {c->output(1), c->output_gradient(0)}));
  return absl::OkStatus();
}

COX_SIMD_INLINE float Log(float x) { return FastLog(x); }
COX_SIMD_INLINE double Log(double x) { return std::log(x); }

// The loss of a row of n <= 64 columns. `y` may be `x`.
template <typename T>
COX_SIMD_INLINE T RowLoss(const T* x, T* y, int64_t n) {
  T sum = 0, product = 1;
#pragma omp simd reduction(+ : sum) reduction(* : product)
  for (int64_t i = 0; i < n; ++i) {
    const T logit = x[i];
    const T e = Exp(logit < T{0} ? logit : -logit);
    const T inverse = T{1} / (T{1} + e);
    y[i] = logit < T{0} ? e * inverse : inverse;
    sum += logit < T{0} ? T{0} : logit;
    product *= T{1} + e;
  }
  return sum + Log(product);
}

template <typename T>
void Losses(const T* x, int64_t begin, int64_t end, int64_t width, T* loss, T* y) {
  constexpr int64_t kColumns = 64;
  RunSimd([=]() COX_SIMD_BODY {
    for (int64_t row = begin; row < end; ++row) {
      T sum = 0;
      for (int64_t at = 0; at < width; at += kColumns) {
        const int64_t n = width - at < kColumns ? width - at : kColumns;
        sum += RowLoss(x + row * width + at, y + row * width + at, n);
      }
      loss[row] = sum;
    }
  });
}

absl::Status Compute(graph::KernelContext* context) {
  RETURN_IF_ERROR(CheckLogits(*context));
  const Tensor& x = context->input(0);
  const int64_t rows = x.dim(0), width = x.dim(1);
  Tensor loss(x.dtype(), Shape{rows});
  Tensor backprop = context->ForwardOrAllocate(0, x.dtype(), x.shape());
  RETURN_IF_ERROR(DispatchFloat(x.dtype(), [&](auto type) {
    using T = decltype(type);
    const T* px = x.data<T>();
    T *pl = loss.mutable_data<T>(), *py = backprop.mutable_data<T>();
    context->pool()->ParallelFor(rows, RowGrain(4 * width), [&](int64_t begin, int64_t end) {
      Losses(px, begin, end, width, pl, py);
    });
    return absl::OkStatus();
  }));
  context->set_output(0, std::move(loss));
  context->set_output(1, std::move(backprop));
  return absl::OkStatus();
}

}  // namespace

void RegisterNegativeSampling(graph::OpRegistry* registry) {
  registry->Register({.name = "NegativeSamplingLoss",
                      .min_inputs = 1,
                      .max_inputs = 1,
                      .infer = InferLoss,
                      .gradient = LossGradient});
  registry->RegisterKernel("NegativeSamplingLoss", graph::StatelessKernel(Compute));
}

}  // namespace coxswain::kernels
