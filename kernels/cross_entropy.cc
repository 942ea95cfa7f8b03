// Cross entropies, which also return what their backward pass needs.
//
//   SoftmaxCrossEntropy(logits x [B,C], labels p [B,C]) -> loss [B], backprop [B,C]
//     loss_i = sum_j p_ij (lse_i - x_ij),  lse_i = log sum_k e^x_ik
//     backprop = softmax(x) sum_k p_ik - p      (p's rows usually sum up to 1)
//     dx = g_i backprop_ij,  dp = -g_i logsoftmax(x)_ij
//   SparseSoftmaxCrossEntropy(logits x [B,C], labels i64 [B]) -> loss [B], backprop [B,C]
//     the same with p_i = the unit vector of label i
//   SigmoidCrossEntropy(logits x, labels z) -> loss, all of one shape
//     loss = -z log s(x) - (1 - z) log(1 - s(x)) = max(x, 0) - x z + log(1 + e^-|x|)
//     dx = g (s(x) - z),  dz = -g x
//
// The backprop outputs have no derivative of their own.

#include <cmath>
#include <type_traits>

#include "kernels/cpu/row_math.h"
#include "kernels/register_list.h"
#include "kernels/validate.h"
#include "runtime/base/status.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/kernel.h"

namespace coxswain::kernels {
namespace {

// Returns the shape of the logits.
template <typename Context>
absl::StatusOr<Shape> CheckSoftmaxLoss(const Context& c, bool sparse) {
  RETURN_IF_ERROR(WantRank(c, 0, 2));
  RETURN_IF_ERROR(WantFloat(c, 0));
  RETURN_IF_ERROR(WantRank(c, 1, sparse ? 1 : 2));
  RETURN_IF_ERROR(sparse ? WantDType(c, 1, {DType::kI64}) : WantSameDType(c, 0, 1));
  Shape logits = ShapeOfInput(c, 0);
  const Shape& labels = ShapeOfInput(c, 1);
  ASSIGN_OR_RETURN(const int64_t rows, MergeDims(logits.dim(0), labels.dim(0), "rows"));
  logits.set_dim(0, rows);
  if (!sparse) {
    ASSIGN_OR_RETURN(const int64_t classes, MergeDims(logits.dim(1), labels.dim(1), "classes"));
    logits.set_dim(1, classes);
  }
  return logits;
}

absl::Status InferSoftmaxLoss(graph::InferenceContext* c, bool sparse) {
  ASSIGN_OR_RETURN(Shape logits, CheckSoftmaxLoss(*c, sparse));
  c->AddOutput(c->dtype(0), Shape{logits.dim(0)});
  c->AddOutput(c->dtype(0), std::move(logits));
  return absl::OkStatus();
}

absl::Status SoftmaxLossGradient(graph::GradientContext* c, bool sparse) {
  if (c->output_gradient(1).valid()) {
    return absl::InvalidArgumentError("output 1 (backprop) has no derivative");
  }
  const Output g = c->output_gradient(0);
  c->SetInputGradient(0, c->Op("ScaleRows", {c->output(1), g}));
  if (!sparse) {
    const Output log_probability = c->Op("LogSoftmax", {c->input(0)});
    c->SetInputGradient(1, c->Op("ScaleRows", {log_probability, c->Op("Neg", {g})}));
  }
  return absl::OkStatus();
}

// All reads of the row x come before the writes to the same place in y.
template <typename T>
COX_SIMD_INLINE T DenseLossRow(const T* x, const T* p, T* y, int64_t n) {
  const T max = RowMax(x, n);
  T weighted = 0;
#pragma omp simd reduction(+ : weighted)
  for (int64_t j = 0; j < n; ++j) weighted += p[j] * (x[j] - max);
  const T total = RowSum(p, n);
  const T sum = RowExp(x, max, y, n);
  const T scale = total / sum;
  COX_SIMD_LOOP
  for (int64_t j = 0; j < n; ++j) y[j] = y[j] * scale - p[j];
  return total * std::log(sum) - weighted;
}

template <typename T>
COX_SIMD_INLINE T SparseLossRow(const T* x, int64_t label, T* y, int64_t n) {
  const T max = RowMax(x, n);
  const T of_label = x[label] - max;
  const T sum = RowExp(x, max, y, n);
  RowScale(y, T{1} / sum, y, n);
  y[label] -= T{1};
  return std::log(sum) - of_label;
}

template <typename T>
absl::Status DenseSoftmaxLoss(graph::KernelContext* context) {
  const Tensor &x = context->input(0), &p = context->input(1);
  const int64_t rows = x.dim(0), width = x.dim(1);
  Tensor loss(x.dtype(), Shape{rows});
  Tensor backprop = context->ForwardOrAllocate(0, x.dtype(), x.shape());
  const T *px = x.data<T>(), *pp = p.data<T>();
  T *pl = loss.mutable_data<T>(), *py = backprop.mutable_data<T>();
  context->pool()->ParallelFor(rows, RowGrain(width), [&](int64_t begin, int64_t end) {
    RunSimd([=]() COX_SIMD_BODY {
      for (int64_t i = begin; i < end; ++i) {
        pl[i] = DenseLossRow(px + i * width, pp + i * width, py + i * width, width);
      }
    });
  });
  context->set_output(0, std::move(loss));
  context->set_output(1, std::move(backprop));
  return absl::OkStatus();
}

template <typename T>
absl::Status SparseSoftmaxLoss(graph::KernelContext* context) {
  const Tensor& x = context->input(0);
  const int64_t rows = x.dim(0), width = x.dim(1);
  const int64_t* labels = context->input(1).data<int64_t>();
  for (int64_t i = 0; i < rows; ++i) {
    if (labels[i] < 0 || labels[i] >= width) {
      return absl::InvalidArgumentError(absl::StrCat("label ", labels[i], " of row ", i,
                                                     ": wanted 0 <= label < ", width, " classes"));
    }
  }
  Tensor loss(x.dtype(), Shape{rows});
  Tensor backprop = context->ForwardOrAllocate(0, x.dtype(), x.shape());
  const T* px = x.data<T>();
  T *pl = loss.mutable_data<T>(), *py = backprop.mutable_data<T>();
  context->pool()->ParallelFor(rows, RowGrain(width), [&](int64_t begin, int64_t end) {
    RunSimd([=]() COX_SIMD_BODY {
      for (int64_t i = begin; i < end; ++i) {
        pl[i] = SparseLossRow(px + i * width, labels[i], py + i * width, width);
      }
    });
  });
  context->set_output(0, std::move(loss));
  context->set_output(1, std::move(backprop));
  return absl::OkStatus();
}

absl::Status ComputeDense(graph::KernelContext* context) {
  RETURN_IF_ERROR(CheckSoftmaxLoss(*context, false).status());
  return context->input(0).dtype() == DType::kF32 ? DenseSoftmaxLoss<float>(context)
                                                  : DenseSoftmaxLoss<double>(context);
}

absl::Status ComputeSparse(graph::KernelContext* context) {
  RETURN_IF_ERROR(CheckSoftmaxLoss(*context, true).status());
  return context->input(0).dtype() == DType::kF32 ? SparseSoftmaxLoss<float>(context)
                                                  : SparseSoftmaxLoss<double>(context);
}

absl::Status InferSigmoidLoss(graph::InferenceContext* c) {
  RETURN_IF_ERROR(WantFloat(*c, 0));
  RETURN_IF_ERROR(WantSameDType(*c, 0, 1));
  RETURN_IF_ERROR(WantRank(*c, 1, c->shape(0).rank()));
  ASSIGN_OR_RETURN(Shape out, MergeInputs(*c, 0, 1));
  c->AddOutput(c->dtype(0), std::move(out));
  return absl::OkStatus();
}

absl::Status SigmoidLossGradient(graph::GradientContext* c) {
  const Output g = c->output_gradient(0), x = c->input(0), z = c->input(1);
  c->SetInputGradient(0, c->Op("Mul", {g, c->Op("Sub", {c->Op("Sigmoid", {x}), z})}));
  c->SetInputGradient(1, c->Op("Neg", {c->Op("Mul", {g, x})}));
  return absl::OkStatus();
}

COX_SIMD_INLINE float SigmoidLoss(float x, float z) {
  return (x < 0.0f ? 0.0f : x) - x * z + FastLog1pUnit(FastExp(-__builtin_fabsf(x)));
}
COX_SIMD_INLINE double SigmoidLoss(double x, double z) {
  return (x < 0.0 ? 0.0 : x) - x * z + std::log1p(std::exp(-std::fabs(x)));
}

template <typename T>
absl::Status SigmoidCrossEntropy(graph::KernelContext* context) {
  const Tensor &x = context->input(0), &z = context->input(1);
  Tensor loss = context->ForwardAnyOrAllocate(x.dtype(), x.shape());
  const T *px = x.data<T>(), *pz = z.data<T>();
  T* pl = loss.mutable_data<T>();
  context->pool()->ParallelFor(x.num_elements(), RowGrain(1), [&](int64_t begin, int64_t end) {
    if constexpr (std::is_same_v<T, float>) {
      RunSimd([=]() COX_SIMD_BODY {
        COX_SIMD_LOOP
        for (int64_t i = begin; i < end; ++i) pl[i] = SigmoidLoss(px[i], pz[i]);
      });
    } else {
      for (int64_t i = begin; i < end; ++i) pl[i] = SigmoidLoss(px[i], pz[i]);
    }
  });
  context->set_output(0, std::move(loss));
  return absl::OkStatus();
}

absl::Status ComputeSigmoid(graph::KernelContext* context) {
  RETURN_IF_ERROR(WantFloat(*context, 0));
  RETURN_IF_ERROR(WantSameInputs(*context, 0, 1));
  return context->input(0).dtype() == DType::kF32 ? SigmoidCrossEntropy<float>(context)
                                                  : SigmoidCrossEntropy<double>(context);
}

}  // namespace

void RegisterCrossEntropyOps(graph::OpRegistry* registry) {
  graph::OpSchema dense{.name = "SoftmaxCrossEntropy", .min_inputs = 2, .max_inputs = 2};
  dense.infer = [](graph::InferenceContext* c) { return InferSoftmaxLoss(c, false); };
  dense.gradient = [](graph::GradientContext* c) { return SoftmaxLossGradient(c, false); };
  registry->Register(dense);
  registry->RegisterKernel("SoftmaxCrossEntropy", graph::StatelessKernel(ComputeDense));

  graph::OpSchema sparse{.name = "SparseSoftmaxCrossEntropy", .min_inputs = 2, .max_inputs = 2};
  sparse.infer = [](graph::InferenceContext* c) { return InferSoftmaxLoss(c, true); };
  sparse.gradient = [](graph::GradientContext* c) { return SoftmaxLossGradient(c, true); };
  registry->Register(sparse);
  registry->RegisterKernel("SparseSoftmaxCrossEntropy", graph::StatelessKernel(ComputeSparse));

  registry->Register({.name = "SigmoidCrossEntropy",
                      .min_inputs = 2,
                      .max_inputs = 2,
                      .infer = InferSigmoidLoss,
                      .gradient = SigmoidLossGradient});
  registry->RegisterKernel("SigmoidCrossEntropy", graph::StatelessKernel(ComputeSigmoid));
}

}  // namespace coxswain::kernels
