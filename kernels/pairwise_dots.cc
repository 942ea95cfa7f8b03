// Products of all pairs of an example's vectors: the interaction of DLRM (Naumov et al., 2019).
//
//   PairwiseDots(x_0 [B,D], ..., x_F-1 [B,D]; with_first) -> [B, F (F-1) / 2]
//     of each example x_1.x_0, x_2.x_0, x_2.x_1, x_3.x_0, ...: the strict lower triangle of the
//     matrix of products, by rows. with_first: x_0 stands before it, [B, D + F (F-1) / 2].
//   PairwiseDotsGrad(g, x_0, ..., x_F-1; with_first) -> F of [B,D]
//     dx_i = sum_{j<i} g_ij x_j + sum_{j>i} g_ji x_j, and for dx_0 the columns of g that are x_0's
//
// The vectors are read where they are: no copy puts them side by side. f64 is for checking
// gradients and goes through plain loops.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/pair_products.h"
#include "kernels/op_util.h"
#include "kernels/register_list.h"
#include "runtime/graph/builder.h"

namespace coxswain::kernels {
namespace {

// Multiplications and additions that are worth a thread of their own.
constexpr int64_t kFlopsPerPart = 4'000'000;

absl::StatusOr<bool> ReadWithFirst(const Attrs& attrs) {
  return OptionalAttr<bool>(attrs, "with_first", false);
}

// The shape [B, D] of the vectors, which start at input `first`.
template <typename Context>
absl::StatusOr<Shape> CheckVectors(const Context& c, int first) {
  Shape shape = ShapeOfInput(c, first);
  for (int i = first; i < c.num_inputs(); ++i) {
    RETURN_IF_ERROR(WantRank(c, i, 2));
    RETURN_IF_ERROR(WantFloat(c, i));
    RETURN_IF_ERROR(WantSameDType(c, 0, i));
    auto merged = MergeShapes(shape, ShapeOfInput(c, i));
    if (!merged.ok()) {
      return Annotate(merged.status(), absl::StrCat("vectors 0 and ", i - first));
    }
    shape = *std::move(merged);
  }
  return shape;
}

Shape Products(const Shape& vectors, int64_t count, bool with_first) {
  const int64_t pairs = count * (count - 1) / 2, width = vectors.dim(1);
  if (!with_first) return Shape{vectors.dim(0), pairs};
  return Shape{vectors.dim(0), width == kUnknownDim ? kUnknownDim : width + pairs};
}

absl::Status InferPairwiseDots(graph::InferenceContext* c) {
  ASSIGN_OR_RETURN(const bool with_first, ReadWithFirst(c->attrs()));
  ASSIGN_OR_RETURN(const Shape vectors, CheckVectors(*c, 0));
  c->AddOutput(c->dtype(0), Products(vectors, c->num_inputs(), with_first));
  return absl::OkStatus();
}

absl::Status InferPairwiseDotsGrad(graph::InferenceContext* c) {
  ASSIGN_OR_RETURN(const bool with_first, ReadWithFirst(c->attrs()));
  RETURN_IF_ERROR(WantRank(*c, 0, 2));
  ASSIGN_OR_RETURN(const Shape vectors, CheckVectors(*c, 1));
  const auto merged = MergeShapes(c->shape(0), Products(vectors, c->num_inputs() - 1, with_first));
  if (!merged.ok()) return Annotate(merged.status(), "the products and their gradient, input 0");
  for (int i = 1; i < c->num_inputs(); ++i) c->AddOutput(c->dtype(0), vectors);
  return absl::OkStatus();
}

absl::Status PairwiseDotsGradient(graph::GradientContext* c) {
  std::vector<Output> inputs = {c->output_gradient(0)};
  for (int i = 0; i < c->num_inputs(); ++i) inputs.push_back(c->input(i));
  for (int i = 0; i < c->num_inputs(); ++i) {
    c->SetInputGradient(i, c->Op("PairwiseDotsGrad", inputs, c->attrs(), i));
  }
  return absl::OkStatus();
}

// With u_i = d(loss)/d(dx_i): dg_ij = u_i.x_j + x_i.u_j = (u+x)_i.(u+x)_j - u_i.u_j - x_i.x_j, and
// dx is to u what it was to x, but for the columns of g that are x_0's: these only add up.
absl::Status PairwiseDotsGradGradient(graph::GradientContext* c) {
  ASSIGN_OR_RETURN(const bool with_first, ReadWithFirst(c->attrs()));
  const int count = c->num_inputs() - 1;
  std::vector<Output> x, u, sums, zeros;
  for (int i = 0; i < count; ++i) {
    x.push_back(c->input(i + 1));
    zeros.push_back(c->Op("ZerosLike", {x[i]}));
    u.push_back(c->output_gradient(i).valid() ? c->output_gradient(i) : zeros[i]);
    sums.push_back(c->Op("Add", {x[i], u[i]}));
  }
  Output squares = c->Op("PairwiseDots", u);
  if (with_first) squares = c->Op("Concat", {zeros[0], squares}, {{"axis", 1}});
  const Output mixed =
      c->Op("Sub", {c->Op("PairwiseDots", sums, c->attrs()), c->Op("PairwiseDots", x, c->attrs())});
  c->SetInputGradient(0, c->Op("Sub", {mixed, squares}));
  u.insert(u.begin(), c->input(0));
  zeros.insert(zeros.begin(), c->input(0));
  for (int i = 0; i < count; ++i) {
    Output spread = c->Op("PairwiseDotsGrad", u, c->attrs(), i);
    if (with_first && i == 0) {
      spread = c->Op("Sub", {spread, c->Op("PairwiseDotsGrad", zeros, c->attrs(), 0)});
    }
    c->SetInputGradient(i + 1, spread);
  }
  return absl::OkStatus();
}

// The vectors of a run, checked.
template <typename T>
struct Vectors {
  std::vector<const T*> x;
  int64_t batch = 0, width = 0;

  int64_t count() const { return static_cast<int64_t>(x.size()); }
  int64_t pairs() const { return count() * (count() - 1) / 2; }
  // Examples that make a range of ParallelFor worth handing to another thread.
  int64_t grain() const {
    const double flops = 2.0 * static_cast<double>(count()) * static_cast<double>(count()) *
                         static_cast<double>(width + 1);
    return 1 + static_cast<int64_t>(static_cast<double>(kFlopsPerPart) / flops);
  }
};

template <typename T>
absl::StatusOr<Vectors<T>> ReadVectors(const graph::KernelContext& context, int first) {
  RETURN_IF_ERROR(CheckVectors(context, first).status());
  Vectors<T> v;
  for (int i = first; i < context.num_inputs(); ++i) {
    v.x.push_back(context.input(i).data<T>());
  }
  v.batch = context.input(first).dim(0);
  v.width = context.input(first).dim(1);
  return v;
}

// `y` has rows of `columns`, of which the products are the last. Examples [begin, end).
void Multiply(const Vectors<float>& v, int64_t begin, int64_t end, int64_t columns, float* y) {
  PairScratch scratch(v.count(), v.width);
  RunSimdByLevel(CurrentSimd(), [&](auto level) COX_SIMD_BODY {
    for (int64_t b = begin; b < end; ++b) {
      for (int64_t i = 0; i < v.count(); ++i) scratch.rows[i] = v.x[i] + b * v.width;
      PairDots<decltype(level)::value>(v.count(), v.width, &scratch,
                                       y + (b + 1) * columns - v.pairs());
    }
  });
}

void Multiply(const Vectors<double>& v, int64_t begin, int64_t end, int64_t columns, double* y) {
  for (int64_t b = begin; b < end; ++b) {
    double* at = y + (b + 1) * columns - v.pairs();
    for (int64_t i = 1; i < v.count(); ++i) {
      for (int64_t j = 0; j < i; ++j) {
        double sum = 0;
        for (int64_t d = 0; d < v.width; ++d) {
          sum += v.x[i][b * v.width + d] * v.x[j][b * v.width + d];
        }
        *at++ = sum;
      }
    }
  }
}

void Spread(const Vectors<float>& v, const float* g, int64_t begin, int64_t end, int64_t columns,
            float* const* out) {
  PairScratch scratch(v.count(), v.width);
  RunSimdByLevel(CurrentSimd(), [&](auto level) COX_SIMD_BODY {
    for (int64_t b = begin; b < end; ++b) {
      for (int64_t i = 0; i < v.count(); ++i) scratch.rows[i] = v.x[i] + b * v.width;
      PairDotsGrad<decltype(level)::value>(g + (b + 1) * columns - v.pairs(), v.count(), v.width,
                                           b * v.width, &scratch, out);
    }
  });
}

void Spread(const Vectors<double>& v, const double* g, int64_t begin, int64_t end, int64_t columns,
            double* const* out) {
  const int64_t n = v.width;
  for (int64_t b = begin; b < end; ++b) {
    const double* at = g + (b + 1) * columns - v.pairs();
    for (int64_t i = 0; i < v.count(); ++i) std::fill_n(out[i] + b * n, n, 0.0);
    for (int64_t i = 1; i < v.count(); ++i) {
      for (int64_t j = 0; j < i; ++j, ++at) {
        for (int64_t d = b * n; d < (b + 1) * n; ++d) {
          out[i][d] += *at * v.x[j][d];
          out[j][d] += *at * v.x[i][d];
        }
      }
    }
  }
}

template <typename T>
absl::Status Dots(bool with_first, graph::KernelContext* context) {
  ASSIGN_OR_RETURN(const Vectors<T> v, ReadVectors<T>(*context, 0));
  Tensor out(DTypeOf<T>::value, Products(context->input(0).shape(), v.count(), with_first));
  const int64_t columns = out.dim(1);
  T* y = out.mutable_data<T>();
  // Of vectors of no width there may be 2^28, for nothing.
  const int64_t batch = out.num_elements() == 0 ? 0 : v.batch;
  context->pool()->ParallelFor(batch, v.grain(), [&](int64_t begin, int64_t end) {
    Multiply(v, begin, end, columns, y);
    if (!with_first) return;
    for (int64_t b = begin; b < end; ++b) {
      std::copy_n(v.x[0] + b * v.width, v.width, y + b * columns);
    }
  });
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

template <typename T>
absl::Status DotsGrad(bool with_first, graph::KernelContext* context) {
  ASSIGN_OR_RETURN(const Vectors<T> v, ReadVectors<T>(*context, 1));
  const Shape& shape = context->input(1).shape();
  RETURN_IF_ERROR(WantInputShape(*context, 0, Products(shape, v.count(), with_first)));
  const T* g = context->input(0).data<T>();
  const int64_t columns = context->input(0).dim(1);
  std::vector<T*> out;
  for (int i = 0; i < static_cast<int>(v.count()); ++i) {
    Tensor gradient(DTypeOf<T>::value, shape);
    out.push_back(gradient.template mutable_data<T>());
    context->set_output(i, std::move(gradient));
  }
  const int64_t batch = v.width == 0 ? 0 : v.batch;
  context->pool()->ParallelFor(batch, v.grain(), [&](int64_t begin, int64_t end) {
    Spread(v, g, begin, end, columns, out.data());
    if (!with_first) return;
    for (int64_t b = begin; b < end; ++b) {
      for (int64_t d = 0; d < v.width; ++d) out[0][b * v.width + d] += g[b * columns + d];
    }
  });
  return absl::OkStatus();
}

absl::Status ComputeDots(const bool& with_first, graph::KernelContext* context) {
  return DispatchFloat(context->input(0).dtype(),
                       [&](auto zero) { return Dots<decltype(zero)>(with_first, context); });
}

absl::Status ComputeDotsGrad(const bool& with_first, graph::KernelContext* context) {
  return DispatchFloat(context->input(0).dtype(),
                       [&](auto zero) { return DotsGrad<decltype(zero)>(with_first, context); });
}

}  // namespace

void RegisterPairwiseDots(graph::OpRegistry* registry) {
  registry->Register({.name = "PairwiseDots",
                      .min_inputs = 1,
                      .max_inputs = -1,
                      .infer = InferPairwiseDots,
                      .gradient = PairwiseDotsGradient,
                      .attrs = {"with_first"}});
  registry->RegisterKernel("PairwiseDots", AttrKernel<bool>(ReadWithFirst, ComputeDots));
  registry->Register({.name = "PairwiseDotsGrad",
                      .min_inputs = 2,
                      .max_inputs = -1,
                      .infer = InferPairwiseDotsGrad,
                      .gradient = PairwiseDotsGradGradient,
                      .attrs = {"with_first"}});
  registry->RegisterKernel("PairwiseDotsGrad", AttrKernel<bool>(ReadWithFirst, ComputeDotsGrad));
}

}  // namespace coxswain::kernels
