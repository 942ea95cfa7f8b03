// The largest values of each row (the last dimension).
//
//   TopK(x; k) -> values [..., k], indices i64 [..., k]
//     largest first; of equal ones the lower index first; NaN counts as largest
//     dx = PutAlongLast(g, indices, x)
//
//   PutAlongLast(g [..., k], indices [..., k], like [..., n])
//     zeros of the shape of `like`, with each value of g added at its index of the row
//     dg = TakeAlongLast(h, indices), h being the gradient that comes in
//
//   TakeAlongLast(x [..., n], indices [..., k])
//     the values at the indices
//     dx = PutAlongLast(g, indices, x)
//
// f32, f64; indices i32 or i64, out of range is an error.
#include "kernels/cpu/index_check.h"
#include "kernels/cpu/top_entries.h"
#include "kernels/op_util.h"
#include "kernels/register_list.h"

namespace coxswain::kernels {
namespace {

absl::StatusOr<int64_t> ReadK(const Attrs& attrs) {
  ASSIGN_OR_RETURN(const int64_t k, graph::GetAttr<int64_t>(attrs, "k"));
  if (k >= 1) return k;
  return absl::InvalidArgumentError(absl::StrCat("attribute 'k': wanted 1 or more, found ", k));
}

// x's shape with k for its last dimension.
absl::StatusOr<Shape> TopShape(const Shape& x, int64_t k) {
  if (x.rank() < 1)
    return absl::InvalidArgumentError("input 0: wanted rank 1 or more, found a scalar");
  const int last = x.rank() - 1;
  if (x.dim(last) != kUnknownDim && x.dim(last) < k) {
    return absl::InvalidArgumentError(absl::StrCat(
        "attribute 'k': wanted at most the last dimension of ", x.ToString(), ", found ", k));
  }
  Shape shape = x;
  shape.set_dim(last, k);
  return shape;
}

// The indices' shape must be that of `x` but for the last dimension.
absl::Status WantRowsOf(const Shape& x, const Shape& indices) {
  const int rank = x.rank();
  bool fits = rank >= 1 && rank == indices.rank();
  if (fits) {
    Shape a = x, b = indices;
    a.set_dim(rank - 1, 1);
    b.set_dim(rank - 1, 1);
    fits = MergeShapes(a, b).ok();
  }
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("wanted indices of the shape ", x.ToString(),
                                                 " but for the last dimension, found ",
                                                 indices.ToString()));
}

absl::Status InferTopK(graph::InferenceContext* context) {
  RETURN_IF_ERROR(context->WantDType(0, {DType::kF32, DType::kF64}));
  ASSIGN_OR_RETURN(const int64_t k, ReadK(context->attrs()));
  ASSIGN_OR_RETURN(const Shape shape, TopShape(context->shape(0), k));
  context->AddOutput(context->dtype(0), shape);
  context->AddOutput(DType::kI64, shape);
  return absl::OkStatus();
}

absl::Status InferTake(graph::InferenceContext* context) {
  RETURN_IF_ERROR(context->WantDType(0, {DType::kF32, DType::kF64}));
  RETURN_IF_ERROR(context->WantDType(1, {DType::kI32, DType::kI64}));
  RETURN_IF_ERROR(WantRowsOf(context->shape(0), context->shape(1)));
  context->AddOutput(context->dtype(0), context->shape(1));
  return absl::OkStatus();
}

absl::Status InferPut(graph::InferenceContext* context) {
  RETURN_IF_ERROR(context->WantDType(0, {DType::kF32, DType::kF64}));
  RETURN_IF_ERROR(context->WantDType(1, {DType::kI32, DType::kI64}));
  auto merged = MergeShapes(context->shape(0), context->shape(1));
  if (!merged.ok()) return Annotate(merged.status(), "inputs 0 and 1");
  RETURN_IF_ERROR(WantRowsOf(context->shape(2), context->shape(1)));
  context->AddOutput(context->dtype(0), context->shape(2));
  return absl::OkStatus();
}

absl::Status TopKGradient(graph::GradientContext* context) {
  if (!context->output_gradient(0).valid()) return absl::OkStatus();  // only the indices were used
  context->SetInputGradient(
      0, context->Op("PutAlongLast",
                     {context->output_gradient(0), context->output(1), context->input(0)}));
  return absl::OkStatus();
}

absl::Status TakeGradient(graph::GradientContext* context) {
  context->SetInputGradient(0, context->Op("PutAlongLast", {context->output_gradient(0),
                                                            context->input(1), context->input(0)}));
  return absl::OkStatus();
}

absl::Status PutGradient(graph::GradientContext* context) {
  context->SetInputGradient(
      0, context->Op("TakeAlongLast", {context->output_gradient(0), context->input(1)}));
  return absl::OkStatus();
}

absl::Status TopKCompute(const int64_t& k, graph::KernelContext* context) {
  const Tensor& x = context->input(0);
  ASSIGN_OR_RETURN(const Shape shape, TopShape(x.shape(), k));
  const int64_t n = x.dim(x.rank() - 1), rows = DimsProduct(shape, 0, shape.rank() - 1);
  Tensor values(x.dtype(), shape), indices(DType::kI64, shape);
  RETURN_IF_ERROR(DispatchFloat(x.dtype(), [&](auto t) {
    using T = decltype(t);
    T* value = values.mutable_data<T>();
    int64_t* index = indices.mutable_data<int64_t>();
    context->pool()->ParallelFor(rows, kElementGrain / (4 * n) + 1,
                                 [&](int64_t begin, int64_t end) {
                                   TopEntries<T> top(k);
                                   for (int64_t r = begin; r < end; ++r) {
                                     const T* row = x.data<T>() + r * n;
                                     top.Clear();
                                     for (int64_t i = 0; i < n; ++i) top.Add(row[i], i);
                                     int64_t at = r * k;
                                     for (const TopEntry<T>& entry : top.Sorted()) {
                                       value[at] = entry.value;
                                       index[at++] = entry.index;
                                     }
                                   }
                                 });
    return absl::OkStatus();
  }));
  context->set_output(0, std::move(values));
  context->set_output(1, std::move(indices));
  return absl::OkStatus();
}

// Calls f(rows, n, k, indices) with the indices' own type.
template <typename F>
absl::Status ForIndices(const Shape& full, const Tensor& indices, F f) {
  RETURN_IF_ERROR(WantRowsOf(full, indices.shape()));
  const int last = full.rank() - 1;
  RETURN_IF_ERROR(CheckIndices(indices, full.dim(last), "last dimension"));
  if (indices.num_elements() == 0) return absl::OkStatus();  // of however many rows
  return DispatchIndex(indices.dtype(), [&](auto t) {
    f(DimsProduct(full, 0, last), full.dim(last), indices.dim(last), indices.data<decltype(t)>());
    return absl::OkStatus();
  });
}

absl::Status TakeCompute(graph::KernelContext* context) {
  const Tensor &x = context->input(0), &indices = context->input(1);
  Tensor out(x.dtype(), indices.shape());
  RETURN_IF_ERROR(DispatchFloat(x.dtype(), [&](auto t) {
    using T = decltype(t);
    return ForIndices(x.shape(), indices, [&](int64_t rows, int64_t n, int64_t k, auto* index) {
      const T* from = x.data<T>();
      T* to = out.mutable_data<T>();
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = r * k; i < (r + 1) * k; ++i) to[i] = from[r * n + index[i]];
      }
    });
  }));
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

absl::Status PutCompute(graph::KernelContext* context) {
  const Tensor &g = context->input(0), &indices = context->input(1);
  RETURN_IF_ERROR(WantInputShape(*context, 0, indices.shape()));
  const Shape& like = context->input(2).shape();
  Tensor out = Tensor::Zeros(g.dtype(), like);
  RETURN_IF_ERROR(DispatchFloat(g.dtype(), [&](auto t) {
    using T = decltype(t);
    return ForIndices(like, indices, [&](int64_t rows, int64_t n, int64_t k, auto* index) {
      const T* from = g.data<T>();
      T* to = out.mutable_data<T>();
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = r * k; i < (r + 1) * k; ++i) to[r * n + index[i]] += from[i];
      }
    });
  }));
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

}  // namespace

void RegisterTopKOps(graph::OpRegistry* registry) {
  registry->Register({.name = "TopK",
                      .min_inputs = 1,
                      .max_inputs = 1,
                      .infer = InferTopK,
                      .gradient = TopKGradient,
                      .attrs = {"k"}});
  registry->RegisterKernel("TopK", AttrKernel<int64_t>(ReadK, TopKCompute));
  registry->Register({.name = "TakeAlongLast",
                      .min_inputs = 2,
                      .max_inputs = 2,
                      .infer = InferTake,
                      .gradient = TakeGradient});
  registry->RegisterKernel("TakeAlongLast", graph::StatelessKernel(TakeCompute));
  registry->Register({.name = "PutAlongLast",
                      .min_inputs = 3,
                      .max_inputs = 3,
                      .infer = InferPut,
                      .gradient = PutGradient});
  registry->RegisterKernel("PutAlongLast", graph::StatelessKernel(PutCompute));
}

}  // namespace coxswain::kernels
