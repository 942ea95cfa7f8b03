// Products of pairs of rows, named by their places.
//
//   PairDot(a [U,D], b [W,D], ia [n], ib [n]) -> [n]          y_p = sum_j a[ia_p,j] b[ib_p,j]
//   PairDotGrad(g [n], b [W,D], ia [n], ib [n], a [U,D]) -> [U,D]
//                                                   da_u = sum_{p: ia_p = u} g_p b[ib_p]
//
// The same as RowDot(Gather(a, ia), Gather(b, ib)), but without the n gathered rows: where every
// word is in many pairs, these are most of a step's memory traffic. Places are i32 or i64.
// PairDotGrad reads only the shape of its last input. It is linear in g and b, and each op is in
// the other's gradient:
//   PairDot: da = PairDotGrad(g, b, ia, ib, a), db = PairDotGrad(g, a, ib, ia, b);
//   PairDotGrad, whose output has the gradient h: dg = PairDot(h, b, ia, ib),
//   db = PairDotGrad(g, h, ib, ia, b).
// Errors: InvalidArgument for a place that is not a row.

#include <algorithm>

#include "kernels/cpu/index_check.h"
#include "kernels/cpu/row_math.h"
#include "kernels/op_util.h"
#include "kernels/register_list.h"

namespace coxswain::kernels {
namespace {

// Inputs 2 and 3 are places, one for each pair. Returns the number of pairs.
template <typename Context>
absl::StatusOr<int64_t> CheckPairs(const Context& c) {
  RETURN_IF_ERROR(WantFloat(c, 0));
  RETURN_IF_ERROR(WantSameDType(c, 0, 1));
  RETURN_IF_ERROR(WantRank(c, 1, 2));
  for (int i : {2, 3}) {
    RETURN_IF_ERROR(WantRank(c, i, 1));
    RETURN_IF_ERROR(WantDType(c, i, {DType::kI32, DType::kI64}));
  }
  RETURN_IF_ERROR(WantSameDType(c, 2, 3));
  return MergeDims(ShapeOfInput(c, 2).dim(0), ShapeOfInput(c, 3).dim(0), "pairs");
}

// Returns the number of pairs.
template <typename Context>
absl::StatusOr<int64_t> CheckPairDot(const Context& c) {
  ASSIGN_OR_RETURN(const int64_t pairs, CheckPairs(c));
  RETURN_IF_ERROR(WantRank(c, 0, 2));
  const Shape &a = ShapeOfInput(c, 0), &b = ShapeOfInput(c, 1);
  RETURN_IF_ERROR(MergeDims(a.dim(1), b.dim(1), "columns").status());
  return pairs;
}

// Returns the width of the rows.
template <typename Context>
absl::StatusOr<int64_t> CheckPairDotGrad(const Context& c) {
  ASSIGN_OR_RETURN(const int64_t pairs, CheckPairs(c));
  RETURN_IF_ERROR(WantRank(c, 0, 1));
  RETURN_IF_ERROR(MergeDims(ShapeOfInput(c, 0).dim(0), pairs, "pairs").status());
  RETURN_IF_ERROR(WantSameDType(c, 0, 4));
  RETURN_IF_ERROR(WantRank(c, 4, 2));
  return MergeDims(ShapeOfInput(c, 1).dim(1), ShapeOfInput(c, 4).dim(1), "columns");
}

absl::Status InferPairDot(graph::InferenceContext* c) {
  ASSIGN_OR_RETURN(const int64_t pairs, CheckPairDot(*c));
  c->AddOutput(c->dtype(0), Shape{pairs});
  return absl::OkStatus();
}

absl::Status InferPairDotGrad(graph::InferenceContext* c) {
  ASSIGN_OR_RETURN(const int64_t width, CheckPairDotGrad(*c));
  c->AddOutput(c->dtype(0), Shape{c->shape(4).dim(0), width});
  return absl::OkStatus();
}

absl::Status PairDotGradient(graph::GradientContext* c) {
  const Output g = c->output_gradient(0);
  const Output a = c->input(0), b = c->input(1), ia = c->input(2), ib = c->input(3);
  c->SetInputGradient(0, c->Op("PairDotGrad", {g, b, ia, ib, a}));
  c->SetInputGradient(1, c->Op("PairDotGrad", {g, a, ib, ia, b}));
  return absl::OkStatus();
}

absl::Status PairDotGradGradient(graph::GradientContext* c) {
  const Output h = c->output_gradient(0);
  const Output g = c->input(0), b = c->input(1), ia = c->input(2), ib = c->input(3);
  c->SetInputGradient(0, c->Op("PairDot", {h, b, ia, ib}));
  c->SetInputGradient(1, c->Op("PairDotGrad", {g, h, ib, ia, b}));
  return absl::OkStatus();
}

// Input 2 names rows of `rows`, input 3 rows of input 1.
absl::Status CheckPlaces(const graph::KernelContext& context, const Tensor& rows) {
  RETURN_IF_ERROR(CheckIndices(context.input(2), rows.dim(0), "rows"));
  return CheckIndices(context.input(3), context.input(1).dim(0), "rows");
}

template <typename T, typename Id>
void Dots(const T* a, const T* b, const Id* ia, const Id* ib, int64_t begin, int64_t end,
          int64_t width, T* out) {
  RunSimd([=]() COX_SIMD_BODY {
    for (int64_t p = begin; p < end; ++p) {
      out[p] = RowProduct(a + static_cast<int64_t>(ia[p]) * width,
                          b + static_cast<int64_t>(ib[p]) * width, width);
    }
  });
}

// Sums into the rows [first, last). Each thread has such a range and goes over all pairs, so that
// no two write the same row and every row's sum has one order.
template <typename T, typename Id>
void AddPairs(const T* g, const T* b, const Id* ia, const Id* ib, int64_t n, int64_t first,
              int64_t last, int64_t width, T* out) {
  RunSimd([=]() COX_SIMD_BODY {
    for (int64_t p = 0; p < n; ++p) {
      const int64_t row = static_cast<int64_t>(ia[p]);
      if (row < first || row >= last) continue;
      RowAddScaled(b + static_cast<int64_t>(ib[p]) * width, g[p], out + row * width, width);
    }
  });
}

absl::Status PairDot(graph::KernelContext* context) {
  ASSIGN_OR_RETURN(const int64_t pairs, CheckPairDot(*context));
  const Tensor &a = context->input(0), &b = context->input(1);
  RETURN_IF_ERROR(CheckPlaces(*context, a));
  const int64_t width = a.dim(1);
  Tensor out(a.dtype(), Shape{pairs});
  RETURN_IF_ERROR(DispatchFloat(a.dtype(), [&](auto value_type) {
    return DispatchIndex(context->input(2).dtype(), [&](auto id_type) {
      using T = decltype(value_type);
      using Id = decltype(id_type);
      T* dots = out.mutable_data<T>();
      context->pool()->ParallelFor(pairs, RowGrain(width), [&](int64_t begin, int64_t end) {
        Dots(a.data<T>(), b.data<T>(), context->input(2).data<Id>(), context->input(3).data<Id>(),
             begin, end, width, dots);
      });
      return absl::OkStatus();
    });
  }));
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

absl::Status PairDotGrad(graph::KernelContext* context) {
  ASSIGN_OR_RETURN(const int64_t width, CheckPairDotGrad(*context));
  const Tensor &g = context->input(0), &b = context->input(1), &like = context->input(4);
  RETURN_IF_ERROR(CheckPlaces(*context, like));
  const int64_t pairs = g.dim(0), rows = like.dim(0);
  Tensor out = Tensor::Zeros(g.dtype(), like.shape());
  RETURN_IF_ERROR(DispatchFloat(g.dtype(), [&](auto value_type) {
    return DispatchIndex(context->input(2).dtype(), [&](auto id_type) {
      using T = decltype(value_type);
      using Id = decltype(id_type);
      T* sums = out.mutable_data<T>();
      const bool small = pairs * width < kElementGrain;
      const int64_t parts = small ? 1 : context->pool()->threads();
      context->pool()->ParallelFor(
          rows, std::max<int64_t>(1, rows / parts), [&](int64_t first, int64_t last) {
            AddPairs(g.data<T>(), b.data<T>(), context->input(2).data<Id>(),
                     context->input(3).data<Id>(), pairs, first, last, width, sums);
          });
      return absl::OkStatus();
    });
  }));
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

}  // namespace

void RegisterPairDot(graph::OpRegistry* registry) {
  registry->Register({.name = "PairDot",
                      .min_inputs = 4,
                      .max_inputs = 4,
                      .infer = InferPairDot,
                      .gradient = PairDotGradient});
  registry->RegisterKernel("PairDot", graph::StatelessKernel(PairDot));

  registry->Register({.name = "PairDotGrad",
                      .min_inputs = 5,
                      .max_inputs = 5,
                      .infer = InferPairDotGrad,
                      .gradient = PairDotGradGradient});
  registry->RegisterKernel("PairDotGrad", graph::StatelessKernel(PairDotGrad));
}

}  // namespace coxswain::kernels
