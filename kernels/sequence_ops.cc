// Sequences of any lengths, one behind the other: sequence b is the rows offsets_b ..
// offsets_{b+1} - 1 of a matrix, the oldest first.
//
//   CausalAttention(q [n,D], k [n,D], v [n,D], offsets i32 [B+1]; heads = 1) -> [n,D]
//     for each of `heads` runs of d = D / heads columns (Vaswani et al., 2017):
//     y_i = sum_{j <= i} a_ij v_j,    a_i = softmax_{j <= i} of q_i . k_j / sqrt(d),
//     j being rows of the sequence of i, none of which is behind it
//   CausalAttentionGrad(g [n,D], q, k, v, offsets; heads) -> dq, dk, dv
//     b_ij = a_ij (g_i . v_j - sum_j a_ij g_i . v_j) / sqrt(d)
//     dq_i = sum_j b_ij k_j,    dk_j = sum_i b_ij q_i,    dv_j = sum_i a_ij g_i
//
//   FromEnd(offsets i32 [B+1], values [n]; most = 2^31 - 1) -> i64 [n]
//     how many values are behind each in its sequence, at most `most`; only the shape of `values`
//     matters
//
//   LastRows(x [n,D], offsets i32 [B+1]) -> [B,D]
//     the last row of each sequence, zeros of an empty one
//   LastRowsGrad(g [B,D], x, offsets) -> [n,D]
//     its transpose; of x only the shape matters
//
// Errors: InvalidArgument unless offsets rise from 0 to n, and for heads that D is no multiple of.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/index_check.h"
#include "kernels/op_util.h"
#include "kernels/register_list.h"
#include "runtime/base/status.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/kernel.h"

namespace coxswain::kernels {
namespace {

absl::StatusOr<int64_t> ReadHeads(const Attrs& attrs) {
  ASSIGN_OR_RETURN(const int64_t heads, OptionalAttr<int64_t>(attrs, "heads", 1));
  if (heads >= 1) return heads;
  return absl::InvalidArgumentError(
      absl::StrCat("attribute 'heads': wanted 1 or more, found ", heads));
}

absl::StatusOr<int64_t> ReadMost(const Attrs& attrs) {
  ASSIGN_OR_RETURN(
      const int64_t most,
      OptionalAttr<int64_t>(attrs, "most", int64_t{std::numeric_limits<int32_t>::max()}));
  if (most >= 0) return most;
  return absl::InvalidArgumentError(
      absl::StrCat("attribute 'most': wanted 0 or more, found ", most));
}

// Returns the number of sequences.
template <typename Context>
absl::StatusOr<int64_t> CheckSequences(const Context& c, int at) {
  RETURN_IF_ERROR(WantRank(c, at, 1));
  RETURN_IF_ERROR(WantDType(c, at, {DType::kI32}));
  const int64_t offsets = ShapeOfInput(c, at).dim(0);
  if (offsets == kUnknownDim) return kUnknownDim;
  if (offsets > 0) return offsets - 1;
  return absl::InvalidArgumentError(
      absl::StrCat("input ", at, ": wanted one offset more than sequences, found none"));
}

// That the sequences of a run are all of `rows`.
absl::Status CheckAllRows(absl::Span<const int32_t> offsets, int64_t rows) {
  RETURN_IF_ERROR(CheckOffsets(offsets, rows));
  if (offsets.front() == 0 && offsets.back() == rows) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("wanted offsets from 0 to ", rows, ", found ",
                                                 offsets.front(), " to ", offsets.back()));
}

// Matrices are inputs 0 .. matrices - 1, all alike; the offsets come next.
template <typename Context>
absl::StatusOr<Shape> CheckMatrices(const Context& c, int matrices, int64_t heads) {
  Shape shape = ShapeOfInput(c, 0);
  for (int i = 0; i < matrices; ++i) {
    RETURN_IF_ERROR(WantRank(c, i, 2));
    RETURN_IF_ERROR(WantFloat(c, i));
    RETURN_IF_ERROR(WantSameDType(c, 0, i));
    ASSIGN_OR_RETURN(shape, MergeShapes(shape, ShapeOfInput(c, i)));
  }
  RETURN_IF_ERROR(CheckSequences(c, matrices).status());
  if (shape.dim(1) == kUnknownDim || shape.dim(1) % heads == 0) return shape;
  return absl::InvalidArgumentError(absl::StrCat("attribute 'heads': wanted a divisor of ",
                                                 shape.dim(1), " columns, found ", heads));
}

absl::Status InferAttention(graph::InferenceContext* c) {
  ASSIGN_OR_RETURN(const int64_t heads, ReadHeads(c->attrs()));
  ASSIGN_OR_RETURN(Shape shape, CheckMatrices(*c, 3, heads));
  c->AddOutput(c->dtype(0), std::move(shape));
  return absl::OkStatus();
}

absl::Status InferAttentionGrad(graph::InferenceContext* c) {
  ASSIGN_OR_RETURN(const int64_t heads, ReadHeads(c->attrs()));
  ASSIGN_OR_RETURN(const Shape shape, CheckMatrices(*c, 4, heads));
  for (int i = 0; i < 3; ++i) c->AddOutput(c->dtype(0), shape);
  return absl::OkStatus();
}

absl::Status AttentionGradient(graph::GradientContext* c) {
  const Output first = c->Op(
      "CausalAttentionGrad",
      {c->output_gradient(0), c->input(0), c->input(1), c->input(2), c->input(3)}, c->attrs());
  for (int i = 0; i < 3; ++i) c->SetInputGradient(i, {first.node, i});
  return absl::OkStatus();
}

// One head of one sequence: rows are `stride` apart.
template <typename T>
struct Head {
  int64_t rows, width, stride;

  const T* row(const T* matrix, int64_t i) const { return matrix + i * stride; }
  T* row(T* matrix, int64_t i) const { return matrix + i * stride; }
  T Dot(const T* a, const T* b) const {
    T sum = 0;
    for (int64_t d = 0; d < width; ++d) sum += a[d] * b[d];
    return sum;
  }
  void AddScaled(const T* x, T scale, T* y) const {
    for (int64_t d = 0; d < width; ++d) y[d] += scale * x[d];
  }
  T scale() const { return 1 / std::sqrt(static_cast<T>(width)); }
  // a_i, of rows 0 .. i.
  void Weights(const T* q, const T* k, int64_t i, std::vector<T>* weights) const {
    weights->resize(static_cast<size_t>(i) + 1);
    T most = -std::numeric_limits<T>::infinity(), sum = 0;
    for (int64_t j = 0; j <= i; ++j) {
      const T score = Dot(row(q, i), row(k, j)) * scale();
      (*weights)[static_cast<size_t>(j)] = score;
      most = std::max(most, score);
    }
    for (T& weight : *weights) sum += weight = std::exp(weight - most);
    for (T& weight : *weights) weight /= sum;
  }
};

template <typename T>
void Attend(const Head<T>& head, const T* q, const T* k, const T* v, T* y) {
  std::vector<T> weights;
  for (int64_t i = 0; i < head.rows; ++i) {
    head.Weights(q, k, i, &weights);
    for (int64_t j = 0; j <= i; ++j) {
      head.AddScaled(head.row(v, j), weights[static_cast<size_t>(j)], head.row(y, i));
    }
  }
}

template <typename T>
struct Inputs {
  const T *g, *q, *k, *v;
};

template <typename T>
void AttendBack(const Head<T>& head, const Inputs<T>& in, T* dq, T* dk, T* dv) {
  std::vector<T> weights, slopes;
  for (int64_t i = 0; i < head.rows; ++i) {
    head.Weights(in.q, in.k, i, &weights);
    slopes.resize(weights.size());
    const T* const g = head.row(in.g, i);
    T mean = 0;
    for (int64_t j = 0; j <= i; ++j) {
      const auto at = static_cast<size_t>(j);
      slopes[at] = head.Dot(g, head.row(in.v, j));
      mean += weights[at] * slopes[at];
    }
    for (int64_t j = 0; j <= i; ++j) {
      const auto at = static_cast<size_t>(j);
      const T b = weights[at] * (slopes[at] - mean) * head.scale();
      head.AddScaled(head.row(in.k, j), b, head.row(dq, i));
      head.AddScaled(head.row(in.q, i), b, head.row(dk, j));
      head.AddScaled(g, weights[at], head.row(dv, j));
    }
  }
}

// Calls `each(head, begin)` for every head of every sequence; its numbers are `begin` behind those
// of the matrix.
template <typename T, typename Each>
void ForEachHead(graph::KernelContext* context, const Tensor& matrix,
                 absl::Span<const int32_t> offsets, int64_t heads, Each each) {
  const int64_t columns = matrix.dim(1), width = columns / heads;
  const auto sequences = static_cast<int64_t>(offsets.size()) - 1;
  context->pool()->ParallelFor(sequences, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = offsets[static_cast<size_t>(b)];
      const int64_t rows = offsets[static_cast<size_t>(b) + 1] - first;
      for (int64_t h = 0; h < heads; ++h) {
        each(Head<T>{rows, width, columns}, first * columns + h * width);
      }
    }
  });
}

Tensor ZerosLike(const Tensor& x) { return Tensor::Zeros(x.dtype(), x.shape()); }

absl::Status ComputeAttention(const int64_t& heads, graph::KernelContext* context) {
  RETURN_IF_ERROR(CheckMatrices(*context, 3, heads).status());
  const Tensor &q = context->input(0), &k = context->input(1), &v = context->input(2);
  const absl::Span<const int32_t> offsets = context->input(3).values<int32_t>();
  RETURN_IF_ERROR(CheckAllRows(offsets, q.dim(0)));
  return DispatchFloat(q.dtype(), [&](auto type) {
    using T = decltype(type);
    Tensor y = ZerosLike(q);
    T* const out = y.template mutable_data<T>();
    ForEachHead<T>(context, q, offsets, heads, [&](const Head<T>& head, int64_t at) {
      Attend(head, q.template data<T>() + at, k.template data<T>() + at, v.template data<T>() + at,
             out + at);
    });
    context->set_output(0, std::move(y));
    return absl::OkStatus();
  });
}

absl::Status ComputeAttentionGrad(const int64_t& heads, graph::KernelContext* context) {
  RETURN_IF_ERROR(CheckMatrices(*context, 4, heads).status());
  const Tensor& g = context->input(0);
  const absl::Span<const int32_t> offsets = context->input(4).values<int32_t>();
  RETURN_IF_ERROR(CheckAllRows(offsets, g.dim(0)));
  return DispatchFloat(g.dtype(), [&](auto type) {
    using T = decltype(type);
    Tensor dq = ZerosLike(g), dk = ZerosLike(g), dv = ZerosLike(g);
    T* const q_out = dq.template mutable_data<T>();
    T* const k_out = dk.template mutable_data<T>();
    T* const v_out = dv.template mutable_data<T>();
    const auto data = [&](int i) { return context->input(i).template data<T>(); };
    ForEachHead<T>(context, g, offsets, heads, [&](const Head<T>& head, int64_t at) {
      const Inputs<T> in{data(0) + at, data(1) + at, data(2) + at, data(3) + at};
      AttendBack(head, in, q_out + at, k_out + at, v_out + at);
    });
    context->set_output(0, std::move(dq));
    context->set_output(1, std::move(dk));
    context->set_output(2, std::move(dv));
    return absl::OkStatus();
  });
}

absl::Status InferFromEnd(graph::InferenceContext* c) {
  RETURN_IF_ERROR(ReadMost(c->attrs()).status());
  RETURN_IF_ERROR(CheckSequences(*c, 0).status());
  RETURN_IF_ERROR(WantRank(*c, 1, 1));
  c->AddOutput(DType::kI64, c->shape(1));
  return absl::OkStatus();
}

absl::Status ComputeFromEnd(const int64_t& most, graph::KernelContext* context) {
  ASSIGN_OR_RETURN(const int64_t sequences, CheckSequences(*context, 0));
  RETURN_IF_ERROR(WantRank(*context, 1, 1));
  const absl::Span<const int32_t> offsets = context->input(0).values<int32_t>();
  const int64_t values = context->input(1).dim(0);
  RETURN_IF_ERROR(CheckAllRows(offsets, values));
  Tensor out(DType::kI64, Shape{values});
  int64_t* const result = out.mutable_data<int64_t>();
  for (int64_t b = 0; b < sequences; ++b) {
    const int64_t end = offsets[static_cast<size_t>(b) + 1];
    for (int64_t e = offsets[static_cast<size_t>(b)]; e < end; ++e) {
      result[e] = std::min(most, end - 1 - e);
    }
  }
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

absl::Status InferLastRows(graph::InferenceContext* c) {
  RETURN_IF_ERROR(WantRank(*c, 0, 2));
  RETURN_IF_ERROR(WantFloat(*c, 0));
  ASSIGN_OR_RETURN(const int64_t sequences, CheckSequences(*c, 1));
  c->AddOutput(c->dtype(0), Shape{sequences, c->shape(0).dim(1)});
  return absl::OkStatus();
}

template <typename Context>
absl::StatusOr<int64_t> CheckLastRowsGrad(const Context& c) {
  for (const int i : {0, 1}) {
    RETURN_IF_ERROR(WantRank(c, i, 2));
    RETURN_IF_ERROR(WantFloat(c, i));
  }
  RETURN_IF_ERROR(WantSameDType(c, 0, 1));
  ASSIGN_OR_RETURN(const int64_t sequences, CheckSequences(c, 2));
  RETURN_IF_ERROR(MergeDims(ShapeOfInput(c, 0).dim(0), sequences, "sequences").status());
  return MergeDims(ShapeOfInput(c, 0).dim(1), ShapeOfInput(c, 1).dim(1), "columns");
}

absl::Status InferLastRowsGrad(graph::InferenceContext* c) {
  ASSIGN_OR_RETURN(const int64_t columns, CheckLastRowsGrad(*c));
  c->AddOutput(c->dtype(0), Shape{c->shape(1).dim(0), columns});
  return absl::OkStatus();
}

absl::Status LastRowsGradient(graph::GradientContext* c) {
  c->SetInputGradient(0, c->Op("LastRowsGrad", {c->output_gradient(0), c->input(0), c->input(1)}));
  return absl::OkStatus();
}
absl::Status LastRowsGradGradient(graph::GradientContext* c) {
  c->SetInputGradient(0, c->Op("LastRows", {c->output_gradient(0), c->input(2)}));
  return absl::OkStatus();
}

absl::Status ComputeLastRows(graph::KernelContext* context) {
  RETURN_IF_ERROR(WantRank(*context, 0, 2));
  ASSIGN_OR_RETURN(const int64_t sequences, CheckSequences(*context, 1));
  const Tensor& x = context->input(0);
  const absl::Span<const int32_t> offsets = context->input(1).values<int32_t>();
  RETURN_IF_ERROR(CheckAllRows(offsets, x.dim(0)));
  return DispatchFloat(x.dtype(), [&](auto type) {
    using T = decltype(type);
    Tensor y = Tensor::Zeros(x.dtype(), Shape{sequences, x.dim(1)});
    T* const out = y.template mutable_data<T>();
    for (int64_t b = 0; b < sequences; ++b) {
      const int64_t end = offsets[static_cast<size_t>(b) + 1];
      if (end == offsets[static_cast<size_t>(b)]) continue;
      std::copy_n(x.template data<T>() + (end - 1) * x.dim(1), x.dim(1), out + b * x.dim(1));
    }
    context->set_output(0, std::move(y));
    return absl::OkStatus();
  });
}

absl::Status ComputeLastRowsGrad(graph::KernelContext* context) {
  RETURN_IF_ERROR(CheckLastRowsGrad(*context).status());
  const Tensor &g = context->input(0), &x = context->input(1);
  const absl::Span<const int32_t> offsets = context->input(2).values<int32_t>();
  RETURN_IF_ERROR(CheckAllRows(offsets, x.dim(0)));
  return DispatchFloat(g.dtype(), [&](auto type) {
    using T = decltype(type);
    Tensor dx = ZerosLike(x);
    T* const out = dx.template mutable_data<T>();
    for (int64_t b = 0; b < g.dim(0); ++b) {
      const int64_t end = offsets[static_cast<size_t>(b) + 1];
      if (end == offsets[static_cast<size_t>(b)]) continue;
      std::copy_n(g.template data<T>() + b * g.dim(1), g.dim(1), out + (end - 1) * g.dim(1));
    }
    context->set_output(0, std::move(dx));
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterSequenceOps(graph::OpRegistry* registry) {
  registry->Register({.name = "CausalAttention",
                      .min_inputs = 4,
                      .max_inputs = 4,
                      .infer = InferAttention,
                      .gradient = AttentionGradient,
                      .attrs = {"heads"}});
  registry->RegisterKernel("CausalAttention", AttrKernel<int64_t>(ReadHeads, ComputeAttention));
  registry->Register({.name = "CausalAttentionGrad",
                      .min_inputs = 5,
                      .max_inputs = 5,
                      .not_differentiable = true,  // nobody takes second derivatives
                      .infer = InferAttentionGrad,
                      .attrs = {"heads"}});
  registry->RegisterKernel("CausalAttentionGrad",
                           AttrKernel<int64_t>(ReadHeads, ComputeAttentionGrad));
  registry->Register({.name = "FromEnd",
                      .min_inputs = 2,
                      .max_inputs = 2,
                      .not_differentiable = true,
                      .infer = InferFromEnd,
                      .attrs = {"most"}});
  registry->RegisterKernel("FromEnd", AttrKernel<int64_t>(ReadMost, ComputeFromEnd));
  registry->Register({.name = "LastRows",
                      .min_inputs = 2,
                      .max_inputs = 2,
                      .infer = InferLastRows,
                      .gradient = LastRowsGradient});
  registry->RegisterKernel("LastRows", graph::StatelessKernel(ComputeLastRows));
  registry->Register({.name = "LastRowsGrad",
                      .min_inputs = 3,
                      .max_inputs = 3,
                      .infer = InferLastRowsGrad,
                      .gradient = LastRowsGradGradient});
  registry->RegisterKernel("LastRowsGrad", graph::StatelessKernel(ComputeLastRowsGrad));
}

}  // namespace coxswain::kernels
