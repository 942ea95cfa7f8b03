// Ops on the rows of a matrix.
//
//   RowDot(a [B,D], b [B,D]) -> [B]        y_i = sum_j a_ij b_ij
//   ScaleRows(x [B,D], s [B]) -> [B,D]     y_ij = s_i x_ij
//
// Each is in the other's gradient: RowDot: da = ScaleRows(b, g), db = ScaleRows(a, g);
// ScaleRows: dx = ScaleRows(g, s), ds = RowDot(g, x).

#include "kernels/cpu/row_math.h"
#include "kernels/register_list.h"
#include "kernels/validate.h"
#include "runtime/base/status.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/kernel.h"

namespace coxswain::kernels {
namespace {

// Returns the number of rows.
template <typename Context>
absl::StatusOr<int64_t> CheckRowDot(const Context& c) {
  RETURN_IF_ERROR(WantRank(c, 0, 2));
  RETURN_IF_ERROR(WantRank(c, 1, 2));
  RETURN_IF_ERROR(WantFloat(c, 0));
  RETURN_IF_ERROR(WantSameDType(c, 0, 1));
  const Shape &a = ShapeOfInput(c, 0), &b = ShapeOfInput(c, 1);
  RETURN_IF_ERROR(MergeDims(a.dim(1), b.dim(1), "columns").status());
  return MergeDims(a.dim(0), b.dim(0), "rows");
}

absl::Status InferRowDot(graph::InferenceContext* c) {
  ASSIGN_OR_RETURN(const int64_t rows, CheckRowDot(*c));
  c->AddOutput(c->dtype(0), Shape{rows});
  return absl::OkStatus();
}

absl::Status RowDotGradient(graph::GradientContext* c) {
  const Output g = c->output_gradient(0);
  c->SetInputGradient(0, c->Op("ScaleRows", {c->input(1), g}));
  c->SetInputGradient(1, c->Op("ScaleRows", {c->input(0), g}));
  return absl::OkStatus();
}

template <typename T>
absl::Status RowDot(graph::KernelContext* context) {
  const Tensor &a = context->input(0), &b = context->input(1);
  const int64_t rows = a.dim(0), width = a.dim(1);
  Tensor out(a.dtype(), Shape{rows});
  const T *pa = a.data<T>(), *pb = b.data<T>();
  T* po = out.mutable_data<T>();
  context->pool()->ParallelFor(rows, RowGrain(width), [&](int64_t begin, int64_t end) {
    RunSimd([=]() COX_SIMD_BODY {
      for (int64_t i = begin; i < end; ++i) {
        po[i] = RowProduct(pa + i * width, pb + i * width, width);
      }
    });
  });
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

absl::Status ComputeRowDot(graph::KernelContext* context) {
  RETURN_IF_ERROR(CheckRowDot(*context).status());
  return context->input(0).dtype() == DType::kF32 ? RowDot<float>(context)
                                                  : RowDot<double>(context);
}

// Returns the number of rows.
template <typename Context>
absl::StatusOr<int64_t> CheckScaleRows(const Context& c) {
  RETURN_IF_ERROR(WantRank(c, 0, 2));
  RETURN_IF_ERROR(WantRank(c, 1, 1));
  RETURN_IF_ERROR(WantFloat(c, 0));
  RETURN_IF_ERROR(WantSameDType(c, 0, 1));
  return MergeDims(ShapeOfInput(c, 0).dim(0), ShapeOfInput(c, 1).dim(0), "rows");
}

absl::Status InferScaleRows(graph::InferenceContext* c) {
  ASSIGN_OR_RETURN(const int64_t rows, CheckScaleRows(*c));
  Shape out = c->shape(0);
  out.set_dim(0, rows);
  c->AddOutput(c->dtype(0), std::move(out));
  return absl::OkStatus();
}

absl::Status ScaleRowsGradient(graph::GradientContext* c) {
  const Output g = c->output_gradient(0);
  c->SetInputGradient(0, c->Op("ScaleRows", {g, c->input(1)}));
  c->SetInputGradient(1, c->Op("RowDot", {g, c->input(0)}));
  return absl::OkStatus();
}

template <typename T>
absl::Status ScaleRows(graph::KernelContext* context) {
  const Tensor &x = context->input(0), &s = context->input(1);
  const int64_t rows = x.dim(0), width = x.dim(1);
  Tensor out = context->ForwardOrAllocate(0, x.dtype(), x.shape());
  const T *px = x.data<T>(), *ps = s.data<T>();
  T* po = out.mutable_data<T>();
  context->pool()->ParallelFor(rows, RowGrain(width), [&](int64_t begin, int64_t end) {
    RunSimd([=]() COX_SIMD_BODY {
      for (int64_t i = begin; i < end; ++i) {
        RowScale(px + i * width, ps[i], po + i * width, width);
      }
    });
  });
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

absl::Status ComputeScaleRows(graph::KernelContext* context) {
  RETURN_IF_ERROR(CheckScaleRows(*context).status());
  return context->input(0).dtype() == DType::kF32 ? ScaleRows<float>(context)
                                                  : ScaleRows<double>(context);
}

}  // namespace

void RegisterRowOps(graph::OpRegistry* registry) {
  registry->Register({.name = "RowDot",
                      .min_inputs = 2,
                      .max_inputs = 2,
                      .infer = InferRowDot,
                      .gradient = RowDotGradient});
  registry->RegisterKernel("RowDot", graph::StatelessKernel(ComputeRowDot));

  registry->Register({.name = "ScaleRows",
                      .min_inputs = 2,
                      .max_inputs = 2,
                      .infer = InferScaleRows,
                      .gradient = ScaleRowsGradient});
  registry->RegisterKernel("ScaleRows", graph::StatelessKernel(ComputeScaleRows));
}

}  // namespace coxswain::kernels
