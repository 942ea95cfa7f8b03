// Rows by index.
//
//   Gather(params [N, ...], indices)
//     the rows params[indices], of shape indices.shape + params.shape[1:]
//     dparams = SegmentSumLike(g, indices, params)
//
//   SegmentSumLike(data, segment_ids, like)
//     of the shape of `like`; row r is the sum of the rows of `data` whose segment id is r, and
//     zeros where there is none
//     ddata = Gather(g, segment_ids)
//
// Indices are i32 or i64 of any shape; one out of range is an error. Gather takes any dtype, sums
// are f32 or f64; rows are added in the order of `data`, whatever the number of threads.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/index_check.h"
#include "kernels/cpu/simd.h"
#include "kernels/op_util.h"
#include "kernels/register_list.h"

namespace coxswain::kernels {
namespace {

// indices.shape + params.shape[1:].
Shape GatheredShape(const Shape& params, const Shape& indices) {
  Shape shape = indices;
  for (int i = 1; i < params.rank(); ++i) shape.Append(params.dim(i));
  return shape;
}

absl::Status InferGather(graph::InferenceContext* context) {
  RETURN_IF_ERROR(WantRows(*context, 0));
  RETURN_IF_ERROR(context->WantDType(1, {DType::kI32, DType::kI64}));
  context->AddOutput(context->dtype(0), GatheredShape(context->shape(0), context->shape(1)));
  return absl::OkStatus();
}

absl::Status InferSegmentSum(graph::InferenceContext* context) {
  RETURN_IF_ERROR(context->WantDType(0, {DType::kF32, DType::kF64}));
  RETURN_IF_ERROR(context->WantDType(1, {DType::kI32, DType::kI64}));
  RETURN_IF_ERROR(WantRows(*context, 2));
  auto merged = MergeShapes(GatheredShape(context->shape(2), context->shape(1)), context->shape(0));
  if (!merged.ok()) return Annotate(merged.status(), "segment ids by rows of input 2, and input 0");
  context->AddOutput(context->dtype(0), context->shape(2));
  return absl::OkStatus();
}

absl::Status GatherGradient(graph::GradientContext* context) {
  context->SetInputGradient(
      0, context->Op("SegmentSumLike",
                     {context->output_gradient(0), context->input(1), context->input(0)}));
  return absl::OkStatus();
}

absl::Status SegmentSumGradient(graph::GradientContext* context) {
  context->SetInputGradient(
      0, context->Op("Gather", {context->output_gradient(0), context->input(1)}));
  return absl::OkStatus();
}

// The rows lie anywhere in a table that may be larger than the caches, so they are prefetched: this
// many rows ahead.
constexpr int64_t kAhead = 8;

template <typename Id>
void CopyRows(const char* params, const Id* ids, int64_t begin, int64_t end, size_t row,
              char* out) {
  for (int64_t i = begin; i < end; ++i) {
    if (i + kAhead < end) {
      const char* next = params + static_cast<size_t>(ids[i + kAhead]) * row;
      for (size_t line = 0; line < row && line < 512; line += 64) __builtin_prefetch(next + line);
    }
    std::memcpy(out + static_cast<size_t>(i) * row, params + static_cast<size_t>(ids[i]) * row,
                row);
  }
}

absl::Status GatherCompute(graph::KernelContext* context) {
  const Tensor& params = context->input(0);
  const Tensor& indices = context->input(1);
  RETURN_IF_ERROR(WantRows(*context, 0));
  RETURN_IF_ERROR(CheckIndices(indices, params.dim(0), "rows"));
  Tensor out(params.dtype(), GatheredShape(params.shape(), indices.shape()));
  const size_t row =
      static_cast<size_t>(DimsProduct(params.shape(), 1, params.rank())) * SizeOf(params.dtype());
  if (out.bytes() > 0) {
    RETURN_IF_ERROR(DispatchIndex(indices.dtype(), [&](auto t) {
      using Id = decltype(t);
      const auto* from = static_cast<const char*>(params.raw());
      auto* to = static_cast<char*>(out.mutable_raw());
      context->pool()->ParallelFor(indices.num_elements(),
                                   4 * kElementGrain / static_cast<int64_t>(row) + 1,
                                   [&](int64_t begin, int64_t end) {
                                     CopyRows(from, indices.data<Id>(), begin, end, row, to);
                                   });
      return absl::OkStatus();
    }));
  }
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

// Adds the rows whose segment lies in [first, last). Each thread has such a range, so that no two
// write the same row and every row's sum has one order.
template <typename T, typename Id>
void AddRows(const T* data, const Id* ids, int64_t n, int64_t first, int64_t last, int64_t row,
             T* out) {
  RunSimd([=]() COX_SIMD_BODY {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t id = static_cast<int64_t>(ids[i]);
      if (id < first || id >= last) continue;
      const T* from = data + i * row;
      T* to = out + id * row;
      COX_SIMD_LOOP
      for (int64_t j = 0; j < row; ++j) to[j] += from[j];
    }
  });
}

absl::Status SegmentSumCompute(graph::KernelContext* context) {
  const Tensor& data = context->input(0);
  const Tensor& ids = context->input(1);
  const Shape& like = context->input(2).shape();
  RETURN_IF_ERROR(WantRows(*context, 2));
  RETURN_IF_ERROR(WantInputShape(*context, 0, GatheredShape(like, ids.shape())));
  RETURN_IF_ERROR(CheckIndices(ids, like.dim(0), "rows"));
  Tensor out = Tensor::Zeros(data.dtype(), like);
  const int64_t row = DimsProduct(like, 1, like.rank()), rows = like.dim(0);
  if (data.num_elements() > 0) {
    RETURN_IF_ERROR(DispatchFloat(data.dtype(), [&](auto value_type) {
      return DispatchIndex(ids.dtype(), [&](auto id_type) {
        using T = decltype(value_type);
        using Id = decltype(id_type);
        const int64_t n = ids.num_elements();
        T* sums = out.mutable_data<T>();
        // Each range costs a pass over the ids: one for each thread, or one for a small sum.
        const bool small = data.num_elements() < kElementGrain;
        const int64_t parts = small ? 1 : context->pool()->threads();
        context->pool()->ParallelFor(
            rows, std::max<int64_t>(1, rows / parts), [&](int64_t first, int64_t last) {
              AddRows(data.data<T>(), ids.data<Id>(), n, first, last, row, sums);
            });
        return absl::OkStatus();
      });
    }));
  }
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

}  // namespace

void RegisterGatherOps(graph::OpRegistry* registry) {
  registry->Register({.name = "Gather",
                      .min_inputs = 2,
                      .max_inputs = 2,
                      .infer = InferGather,
                      .gradient = GatherGradient});
  registry->RegisterKernel("Gather", graph::StatelessKernel(GatherCompute));
  registry->Register({.name = "SegmentSumLike",
                      .min_inputs = 3,
                      .max_inputs = 3,
                      .infer = InferSegmentSum,
                      .gradient = SegmentSumGradient});
  registry->RegisterKernel("SegmentSumLike", graph::StatelessKernel(SegmentSumCompute));
}

}  // namespace coxswain::kernels
