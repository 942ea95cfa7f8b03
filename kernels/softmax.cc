// Softmax and its logarithm over the last axis of a tensor of rank >= 1.
//
//   Softmax(x):     y_j = e^(x_j - m) / sum_k e^(x_k - m),    m = max x
//                   dx = (g - sum_k g_k y_k) y
//   LogSoftmax(x):  y_j = x_j - m - log sum_k e^(x_k - m)
//                   dx = g - e^y sum_k g_k
//
// The gradients are ops of their own, one pass each. Their own gradients, from h, are put together
// from smaller ops:
//
//   SoftmaxGrad(g, y):     dg = SoftmaxGrad(h, y)
//                          dy = h (g - sum_k g_k y_k) - g sum_k h_k y_k
//   LogSoftmaxGrad(g, y):  dg = h - sum_k h_k e^y_k
//                          dy = -h e^y sum_k g_k

#include <cmath>
#include <vector>

#include "kernels/cpu/row_math.h"
#include "kernels/op_util.h"
#include "kernels/register_list.h"
#include "runtime/base/status.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/kernel.h"

namespace coxswain::kernels {
namespace {

template <typename Context>
absl::Status CheckRows(const Context& c) {
  RETURN_IF_ERROR(WantFloat(c, 0));
  return WantRows(c, 0);
}

absl::Status InferSoftmax(graph::InferenceContext* c) {
  RETURN_IF_ERROR(CheckRows(*c));
  return InferLikeInput(c);
}

absl::Status InferSoftmaxGrad(graph::InferenceContext* c) {
  RETURN_IF_ERROR(InferSoftmax(c));
  RETURN_IF_ERROR(WantSameDType(*c, 0, 1));
  return WantRank(*c, 1, c->shape(0).rank());
}

// The sum over the last axis, which stays with size 1.
Output LastAxisSum(graph::GradientContext* c, Output x) {
  return c->Op("ReduceSum", {x}, {{"axes", std::vector<int64_t>{-1}}, {"keep_dims", true}});
}

absl::Status SoftmaxGradGradient(graph::GradientContext* c) {
  const Output h = c->output_gradient(0), g = c->input(0), y = c->input(1);
  c->SetInputGradient(0, c->Op("SoftmaxGrad", {h, y}));
  const Output centred = c->Op("Sub", {g, LastAxisSum(c, c->Op("Mul", {g, y}))});
  const Output mean = LastAxisSum(c, c->Op("Mul", {h, y}));
  c->SetInputGradient(1, c->Op("Sub", {c->Op("Mul", {h, centred}), c->Op("Mul", {g, mean})}));
  return absl::OkStatus();
}

absl::Status LogSoftmaxGradGradient(graph::GradientContext* c) {
  const Output h = c->output_gradient(0), g = c->input(0);
  const Output weighted = c->Op("Mul", {h, c->Op("Exp", {c->input(1)})});
  c->SetInputGradient(0, c->Op("Sub", {h, LastAxisSum(c, weighted)}));
  c->SetInputGradient(1, c->Op("Neg", {c->Op("Mul", {weighted, LastAxisSum(c, g)})}));
  return absl::OkStatus();
}

template <typename T>
COX_SIMD_INLINE void SoftmaxRow(const T* x, T* y, int64_t n) {
  const T sum = RowExp(x, RowMax(x, n), y, n);
  RowScale(y, T{1} / sum, y, n);
}

template <typename T>
COX_SIMD_INLINE void LogSoftmaxRow(const T* x, T* y, int64_t n) {
  const T max = RowMax(x, n);
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < n; ++j) sum += Exp(x[j] - max);
  const T shift = max + std::log(sum);
  COX_SIMD_LOOP
  for (int64_t j = 0; j < n; ++j) y[j] = x[j] - shift;
}

template <typename T>
COX_SIMD_INLINE void SoftmaxGradRow(const T* g, const T* y, T* dx, int64_t n) {
  const T mean = RowProduct(g, y, n);
  COX_SIMD_LOOP
  for (int64_t j = 0; j < n; ++j) dx[j] = (g[j] - mean) * y[j];
}

template <typename T>
COX_SIMD_INLINE void LogSoftmaxGradRow(const T* g, const T* y, T* dx, int64_t n) {
  const T sum = RowSum(g, n);
  COX_SIMD_LOOP
  for (int64_t j = 0; j < n; ++j) dx[j] = g[j] - Exp(y[j]) * sum;
}

template <typename T, bool kLog>
absl::Status Softmax(graph::KernelContext* context) {
  const Tensor& x = context->input(0);
  const int64_t width = x.dim(x.rank() - 1);
  const int64_t rows = width == 0 ? 0 : x.num_elements() / width;
  Tensor out = context->ForwardOrAllocate(0, x.dtype(), x.shape());
  const T* px = x.data<T>();
  T* po = out.mutable_data<T>();
  context->pool()->ParallelFor(rows, RowGrain(width), [&](int64_t begin, int64_t end) {
    RunSimd([=]() COX_SIMD_BODY {
      for (int64_t i = begin * width; i < end * width; i += width) {
        if constexpr (kLog) {
          LogSoftmaxRow(px + i, po + i, width);
        } else {
          SoftmaxRow(px + i, po + i, width);
        }
      }
    });
  });
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

template <bool kLog>
absl::Status ComputeSoftmax(graph::KernelContext* context) {
  RETURN_IF_ERROR(CheckRows(*context));
  return context->input(0).dtype() == DType::kF32 ? Softmax<float, kLog>(context)
                                                  : Softmax<double, kLog>(context);
}

template <typename T, bool kLog>
absl::Status SoftmaxGrad(graph::KernelContext* context) {
  const Tensor &g = context->input(0), &y = context->input(1);
  const int64_t width = g.dim(g.rank() - 1);
  const int64_t rows = width == 0 ? 0 : g.num_elements() / width;
  Tensor out = context->ForwardOrAllocate(0, g.dtype(), g.shape());
  const T *pg = g.data<T>(), *py = y.data<T>();
  T* po = out.mutable_data<T>();
  context->pool()->ParallelFor(rows, RowGrain(width), [&](int64_t begin, int64_t end) {
    RunSimd([=]() COX_SIMD_BODY {
      for (int64_t i = begin * width; i < end * width; i += width) {
        if constexpr (kLog) {
          LogSoftmaxGradRow(pg + i, py + i, po + i, width);
        } else {
          SoftmaxGradRow(pg + i, py + i, po + i, width);
        }
      }
    });
  });
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

template <bool kLog>
absl::Status ComputeSoftmaxGrad(graph::KernelContext* context) {
  RETURN_IF_ERROR(CheckRows(*context));
  RETURN_IF_ERROR(WantSameInputs(*context, 0, 1));
  return context->input(0).dtype() == DType::kF32 ? SoftmaxGrad<float, kLog>(context)
                                                  : SoftmaxGrad<double, kLog>(context);
}

}  // namespace

void RegisterSoftmaxOps(graph::OpRegistry* registry) {
  graph::OpSchema softmax{
      .name = "Softmax", .min_inputs = 1, .max_inputs = 1, .infer = InferSoftmax};
  softmax.gradient = [](graph::GradientContext* c) {
    c->SetInputGradient(0, c->Op("SoftmaxGrad", {c->output_gradient(0), c->output(0)}));
    return absl::OkStatus();
  };
  registry->Register(softmax);
  registry->RegisterKernel("Softmax", graph::StatelessKernel(ComputeSoftmax<false>));

  graph::OpSchema log_softmax{
      .name = "LogSoftmax", .min_inputs = 1, .max_inputs = 1, .infer = InferSoftmax};
  log_softmax.gradient = [](graph::GradientContext* c) {
    c->SetInputGradient(0, c->Op("LogSoftmaxGrad", {c->output_gradient(0), c->output(0)}));
    return absl::OkStatus();
  };
  registry->Register(log_softmax);
  registry->RegisterKernel("LogSoftmax", graph::StatelessKernel(ComputeSoftmax<true>));

  registry->Register({.name = "SoftmaxGrad",
                      .min_inputs = 2,
                      .max_inputs = 2,
                      .infer = InferSoftmaxGrad,
                      .gradient = SoftmaxGradGradient});
  registry->RegisterKernel("SoftmaxGrad", graph::StatelessKernel(ComputeSoftmaxGrad<false>));
  registry->Register({.name = "LogSoftmaxGrad",
                      .min_inputs = 2,
                      .max_inputs = 2,
                      .infer = InferSoftmaxGrad,
                      .gradient = LogSoftmaxGradGradient});
  registry->RegisterKernel("LogSoftmaxGrad", graph::StatelessKernel(ComputeSoftmaxGrad<true>));
}

}  // namespace coxswain::kernels
