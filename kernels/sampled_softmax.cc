// Softmax cross entropy against a shared sample of negatives.
//
//   SampledSoftmaxCrossEntropy(true_logits t [B], negative_logits x [B,N],
//                              [true_ids i64 [B], negative_ids i64 [N]]; negative_offset = 0)
//       -> loss [B], true_backprop [B], negative_backprop [B,N]
//
//   loss_i = log(e^t_i + sum_j e^(x_ij + negative_offset)) - t_i
//   true_backprop_i = p_i - 1, negative_backprop_ij = p_ij     (p: the softmax that the loss is of)
//   dt_i = g_i true_backprop_i,  dx_ij = g_i negative_backprop_ij
//
// negative_offset corrects for sampling: log(items / N) makes the sum estimate that over all items.
// With the ids given, a negative that is the row's own true id (an accidental hit) is left out of
// the row's sum. The backprop outputs have no derivative of their own.

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/cpu/row_math.h"
#include "kernels/op_util.h"
#include "kernels/register_list.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/kernel.h"

namespace coxswain::kernels {
namespace {

// Returns the shape of negative_logits.
template <typename Context>
absl::StatusOr<Shape> CheckSampledSoftmax(const Context& c) {
  if (c.num_inputs() == 3) {
    return absl::InvalidArgumentError("wanted both true_ids and negative_ids, or neither");
  }
  RETURN_IF_ERROR(WantRank(c, 0, 1));
  RETURN_IF_ERROR(WantRank(c, 1, 2));
  RETURN_IF_ERROR(WantFloat(c, 0));
  RETURN_IF_ERROR(WantSameDType(c, 0, 1));
  int64_t rows = ShapeOfInput(c, 0).dim(0), negatives = ShapeOfInput(c, 1).dim(1);
  ASSIGN_OR_RETURN(rows, MergeDims(rows, ShapeOfInput(c, 1).dim(0), "rows"));
  if (c.num_inputs() == 4) {
    for (int i : {2, 3}) {
      RETURN_IF_ERROR(WantRank(c, i, 1));
      RETURN_IF_ERROR(WantDType(c, i, {DType::kI64}));
    }
    ASSIGN_OR_RETURN(rows, MergeDims(rows, ShapeOfInput(c, 2).dim(0), "rows and true ids"));
    ASSIGN_OR_RETURN(negatives,
                     MergeDims(negatives, ShapeOfInput(c, 3).dim(0), "negatives and negative ids"));
  }
  return Shape{rows, negatives};
}

absl::Status InferSampledSoftmax(graph::InferenceContext* c) {
  ASSIGN_OR_RETURN(Shape logits, CheckSampledSoftmax(*c));
  RETURN_IF_ERROR(NumberAttr(c->attrs(), "negative_offset", 0.0).status());
  c->AddOutput(c->dtype(0), Shape{logits.dim(0)});
  c->AddOutput(c->dtype(0), Shape{logits.dim(0)});
  c->AddOutput(c->dtype(0), std::move(logits));
  return absl::OkStatus();
}

absl::Status SampledSoftmaxGradient(graph::GradientContext* c) {
  if (c->output_gradient(1).valid() || c->output_gradient(2).valid()) {
    return absl::InvalidArgumentError("outputs 1 and 2 (backprops) have no derivative");
  }
  const Output g = c->output_gradient(0);
  c->SetInputGradient(0, c->Op("Mul", {c->output(1), g}));
  c->SetInputGradient(1, c->Op("ScaleRows", {c->output(2), g}));
  return absl::OkStatus();
}

// The positions of an id among the negatives: a hash table with chains, made once per run.
class Positions {
 public:
  explicit Positions(absl::Span<const int64_t> ids) : ids_(ids), next_(ids.size(), -1) {
    int bits = 4;
    while ((size_t{1} << bits) < 2 * ids.size()) ++bits;
    shift_ = 64 - bits;
    first_.assign(size_t{1} << bits, -1);
    for (size_t i = 0; i < ids.size(); ++i) {
      int32_t& head = first_[Bucket(ids[i])];
      next_[i] = head;
      head = static_cast<int32_t>(i);
    }
  }

  // Calls f(position) for every position of `id`.
  template <typename F>
  void ForEach(int64_t id, F f) const {
    for (int32_t i = first_[Bucket(id)]; i >= 0; i = next_[i]) {
      if (ids_[i] == id) f(i);
    }
  }

 private:
  size_t Bucket(int64_t id) const {
    return (static_cast<uint64_t>(id) * 0x9E3779B97F4A7C15u) >> shift_;
  }

  absl::Span<const int64_t> ids_;
  std::vector<int32_t> next_, first_;
  int shift_;
};

template <typename T>
struct RowResult {
  T loss, true_backprop;
};

// One row: y becomes the negatives' probabilities. `y` may be `x`.
template <typename T>
COX_SIMD_INLINE RowResult<T> SampledRow(T t, const T* x, T offset, T* y, int64_t n) {
  T max = RowMax(x, n) + offset;
  max = t > max ? t : max;
  const T of_true = Exp(t - max);
  const T of_negatives = RowExp(x, max - offset, y, n);
  const T sum = of_true + of_negatives;
  RowScale(y, T{1} / sum, y, n);
  return {std::log(sum) - (t - max), -of_negatives / sum};
}

template <typename T>
void SampledRows(int64_t begin, int64_t end, int64_t width, const T* t, const T* x, T offset,
                 const int64_t* true_ids, const Positions* positions, T* loss, T* true_backprop,
                 T* y) {
  RunSimd([=]() COX_SIMD_BODY {
    for (int64_t i = begin; i < end; ++i) {
      const T* in = x + i * width;
      T* out = y + i * width;
      bool hit = false;
      if (positions != nullptr) {
        positions->ForEach(true_ids[i], [&](int32_t position) {
          if (!hit && in != out) std::memcpy(out, in, sizeof(T) * width);
          hit = true;
          out[position] = -std::numeric_limits<T>::infinity();
        });
      }
      const RowResult<T> row = SampledRow(t[i], hit ? out : in, offset, out, width);
      loss[i] = row.loss;
      true_backprop[i] = row.true_backprop;
    }
  });
}

class SampledSoftmaxKernel final : public graph::Kernel {
 public:
  explicit SampledSoftmaxKernel(double offset) : offset_(offset) {}

  absl::Status Compute(graph::KernelContext* context) const override {
    RETURN_IF_ERROR(CheckSampledSoftmax(*context).status());
    const int64_t width = context->input(1).dim(1);
    if (width > std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat("wanted fewer than 2^31 negatives, found ", width));
    }
    if (context->input(0).dtype() == DType::kF32) {
      Run<float>(context);
    } else {
      Run<double>(context);
    }
    return absl::OkStatus();
  }

 private:
  template <typename T>
  void Run(graph::KernelContext* context) const {
    const Tensor &t = context->input(0), &x = context->input(1);
    const int64_t rows = t.dim(0), width = x.dim(1);
    std::unique_ptr<Positions> positions;
    const int64_t* true_ids = nullptr;
    if (context->num_inputs() == 4) {
      positions = std::make_unique<Positions>(context->input(3).values<int64_t>());
      true_ids = context->input(2).data<int64_t>();
    }
    Tensor loss(t.dtype(), Shape{rows}), true_backprop(t.dtype(), Shape{rows});
    Tensor backprop = context->ForwardOrAllocate(1, x.dtype(), x.shape());
    const T *pt = t.data<T>(), *px = x.data<T>();
    T *pl = loss.mutable_data<T>(), *pb = true_backprop.mutable_data<T>();
    T* py = backprop.mutable_data<T>();
    const T offset = static_cast<T>(offset_);
    context->pool()->ParallelFor(rows, RowGrain(width), [&](int64_t begin, int64_t end) {
      SampledRows(begin, end, width, pt, px, offset, true_ids, positions.get(), pl, pb, py);
    });
    context->set_output(0, std::move(loss));
    context->set_output(1, std::move(true_backprop));
    context->set_output(2, std::move(backprop));
  }

  const double offset_;
};

}  // namespace

void RegisterSampledSoftmax(graph::OpRegistry* registry) {
  registry->Register({.name = "SampledSoftmaxCrossEntropy",
                      .min_inputs = 2,
                      .max_inputs = 4,
                      .infer = InferSampledSoftmax,
                      .gradient = SampledSoftmaxGradient,
                      .attrs = {"negative_offset"}});
  registry->RegisterKernel(
      "SampledSoftmaxCrossEntropy",
      [](const graph::Node& node) -> absl::StatusOr<std::unique_ptr<graph::Kernel>> {
        ASSIGN_OR_RETURN(const double offset, NumberAttr(node.attrs, "negative_offset", 0.0));
        return std::unique_ptr<graph::Kernel>(new SampledSoftmaxKernel(offset));
      });
}

}  // namespace coxswain::kernels
