// Sums of table rows over the bags of a multi-valued feature.
//
//   EmbeddingBag(rows [U,D], inverse i32 [n], offsets i32 [B+1], [weights [n]]; combiner) -> [B,D]
//     y_b = s_b sum_{e in bag b} w_e rows[inverse_e]
//     bag b = entries offsets_b .. offsets_{b+1} - 1
//     "sum": s = 1    "mean": s = 1 / sum w    "sqrtn": s = 1 / sqrt(sum w^2)
//
//   EmbeddingBagGrad(grad [B,D], rows [U,D], inverse, offsets, [weights]; combiner) -> [U,D]
//     drows_u = sum_{e: inverse_e = u} s_b(e) w_e grad_b(e)
//
// Without weights w = 1. An empty bag, and one whose divisor is 0, gives zeros. Both ops are linear
// in rows (grad), so each is in the other's gradient; weights get none. EmbeddingBagGrad reads only
// the shape of `rows`.
//
// Errors: InvalidArgument unless 0 <= inverse < U and 0 <= offsets_0 <= .. <= offsets_B <= n.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "kernels/cpu/index_check.h"
#include "kernels/cpu/row_math.h"
#include "kernels/register_list.h"
#include "kernels/validate.h"
#include "runtime/base/status.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/kernel.h"

namespace coxswain::kernels {
namespace {

enum class Combiner { kSum, kMean, kSqrtN };

absl::StatusOr<Combiner> ParseCombiner(const Attrs& attrs) {
  ASSIGN_OR_RETURN(const std::string name, graph::GetAttr<std::string>(attrs, "combiner"));
  if (name == "sum") return Combiner::kSum;
  if (name == "mean") return Combiner::kMean;
  if (name == "sqrtn") return Combiner::kSqrtN;
  return absl::InvalidArgumentError(
      absl::StrCat("attribute 'combiner': wanted 'sum', 'mean' or 'sqrtn', found '", name, "'"));
}

// Checks the bags, which start at input `first` (inverse, offsets, weights).
template <typename Context>
absl::Status CheckBags(const Context& c, int first) {
  for (int i : {first, first + 1}) {
    RETURN_IF_ERROR(WantDType(c, i, {DType::kI32}));
    RETURN_IF_ERROR(WantRank(c, i, 1));
  }
  if (ShapeOfInput(c, first + 1).dim(0) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("input ", first + 1, ": wanted one offset more than bags, found 0"));
  }
  if (c.num_inputs() <= first + 2) return absl::OkStatus();
  RETURN_IF_ERROR(WantSameDType(c, 0, first + 2));
  RETURN_IF_ERROR(WantRank(c, first + 2, 1));
  return MergeDims(ShapeOfInput(c, first).dim(0), ShapeOfInput(c, first + 2).dim(0),
                   "entries and weights")
      .status();
}

int64_t BagsOf(const Shape& offsets) {
  return offsets.dim(0) == kUnknownDim ? kUnknownDim : offsets.dim(0) - 1;
}

template <typename Context>
absl::Status CheckBag(const Context& c) {
  RETURN_IF_ERROR(WantRank(c, 0, 2));
  RETURN_IF_ERROR(WantFloat(c, 0));
  return CheckBags(c, 1);
}

// Returns the width of the rows.
template <typename Context>
absl::StatusOr<int64_t> CheckBagGrad(const Context& c) {
  for (int i : {0, 1}) RETURN_IF_ERROR(WantRank(c, i, 2));
  RETURN_IF_ERROR(WantFloat(c, 0));
  RETURN_IF_ERROR(WantSameDType(c, 0, 1));
  RETURN_IF_ERROR(CheckBags(c, 2));
  const Shape& grad = ShapeOfInput(c, 0);
  RETURN_IF_ERROR(MergeDims(grad.dim(0), BagsOf(ShapeOfInput(c, 3)), "bags").status());
  return MergeDims(grad.dim(1), ShapeOfInput(c, 1).dim(1), "columns");
}

absl::Status InferBag(graph::InferenceContext* c) {
  RETURN_IF_ERROR(ParseCombiner(c->attrs()).status());
  RETURN_IF_ERROR(CheckBag(*c));
  c->AddOutput(c->dtype(0), Shape{BagsOf(c->shape(2)), c->shape(0).dim(1)});
  return absl::OkStatus();
}

absl::Status InferBagGrad(graph::InferenceContext* c) {
  RETURN_IF_ERROR(ParseCombiner(c->attrs()).status());
  ASSIGN_OR_RETURN(const int64_t width, CheckBagGrad(*c));
  c->AddOutput(c->dtype(0), Shape{c->shape(1).dim(0), width});
  return absl::OkStatus();
}

absl::Status BagGradient(graph::GradientContext* c) {
  std::vector<Output> inputs = {c->output_gradient(0)};
  for (int i = 0; i < c->num_inputs(); ++i) inputs.push_back(c->input(i));
  c->SetInputGradient(0, c->Op("EmbeddingBagGrad", std::move(inputs), c->attrs()));
  return absl::OkStatus();
}

absl::Status BagGradGradient(graph::GradientContext* c) {
  std::vector<Output> inputs = {c->output_gradient(0)};
  for (int i = 2; i < c->num_inputs(); ++i) inputs.push_back(c->input(i));
  c->SetInputGradient(0, c->Op("EmbeddingBag", std::move(inputs), c->attrs()));
  return absl::OkStatus();
}

// The bags of one run, checked.
template <typename T>
struct Bags {
  const int32_t* inverse;
  const int32_t* offsets;
  const T* weights;  // null: all 1
  int64_t bags, entries, width;
  Combiner combiner;

  // 1, 1 / sum w or 1 / sqrt(sum w^2); 0 for an empty bag.
  COX_SIMD_INLINE T Scale(int32_t begin, int32_t end) const {
    if (combiner == Combiner::kSum) return T{1};
    T sum = 0;
    if (weights == nullptr) {
      sum = static_cast<T>(end - begin);
    } else if (combiner == Combiner::kMean) {
      for (int32_t e = begin; e < end; ++e) sum += weights[e];
    } else {
      for (int32_t e = begin; e < end; ++e) sum += weights[e] * weights[e];
    }
    if (sum == T{0}) return T{0};
    return T{1} / (combiner == Combiner::kMean ? sum : std::sqrt(sum));
  }
};

// `first`: the input that is `inverse`; `rows`: U; `width`: D. After CheckBags.
template <typename T>
absl::StatusOr<Bags<T>> ReadBags(const graph::KernelContext& context, int first, int64_t rows,
                                 int64_t width, Combiner combiner) {
  const Tensor &inverse = context.input(first), &offsets = context.input(first + 1);
  Bags<T> bags{inverse.data<int32_t>(),
               offsets.data<int32_t>(),
               nullptr,
               offsets.dim(0) - 1,
               inverse.dim(0),
               width,
               combiner};
  if (context.num_inputs() > first + 2) bags.weights = context.input(first + 2).data<T>();
  RETURN_IF_ERROR(CheckOffsets(offsets.values<int32_t>(), bags.entries));
  for (int64_t e = 0; e < bags.entries; ++e) {
    if (bags.inverse[e] < 0 || bags.inverse[e] >= rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("entry ", e, ": wanted 0 <= row < ", rows, ", found ", bags.inverse[e]));
    }
  }
  return bags;
}

// Fetches the row of entry `e + kAhead`, which will be wanted soon and is seldom in the cache.
template <typename T>
COX_SIMD_INLINE void PrefetchRow(const Bags<T>& bags, const T* rows, int64_t e) {
  constexpr int64_t kAhead = 8;
  if (e + kAhead >= bags.entries) return;
  const char* row = reinterpret_cast<const char*>(rows + bags.inverse[e + kAhead] * bags.width);
  const int64_t bytes = std::min<int64_t>(bags.width * static_cast<int64_t>(sizeof(T)), 512);
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at);
}

template <typename T>
void CombineBags(const Bags<T>& bags, const T* rows, int64_t begin, int64_t end, T* out) {
  RunSimd([=]() COX_SIMD_BODY {
    const int64_t width = bags.width;
    for (int64_t b = begin; b < end; ++b) {
      T* y = out + b * width;
      const int32_t first = bags.offsets[b], last = bags.offsets[b + 1];
      const T scale = bags.Scale(first, last);
      if (first == last || scale == T{0}) {
        std::memset(y, 0, sizeof(T) * width);
        continue;
      }
      for (int32_t e = first; e < last; ++e) {
        PrefetchRow(bags, rows, e);
        const T* row = rows + bags.inverse[e] * width;
        const T w = bags.weights == nullptr ? scale : scale * bags.weights[e];
        if (e == first) {
          RowScale(row, w, y, width);
        } else {
          RowAddScaled(row, w, y, width);
        }
      }
    }
  });
}

// Sums the gradient of rows [begin, end). Each range goes over all entries and takes its own, so
// that ranges never write to the same row and the order of each row's sum does not depend on the
// ranges.
template <typename T>
void SpreadBags(const Bags<T>& bags, const T* grad, int64_t begin, int64_t end, T* out) {
  RunSimd([=]() COX_SIMD_BODY {
    const int64_t width = bags.width;
    std::memset(out + begin * width, 0, sizeof(T) * (end - begin) * width);
    for (int64_t b = 0; b < bags.bags; ++b) {
      const int32_t first = bags.offsets[b], last = bags.offsets[b + 1];
      const T scale = bags.Scale(first, last);
      for (int32_t e = first; e < last; ++e) {
        PrefetchRow(bags, out, e);
        const int64_t row = bags.inverse[e];
        if (row < begin || row >= end) continue;
        const T w = bags.weights == nullptr ? scale : scale * bags.weights[e];
        RowAddScaled(grad + b * width, w, out + row * width, width);
      }
    }
  });
}

template <typename T>
absl::Status Bag(graph::KernelContext* context, Combiner combiner) {
  const Tensor& rows = context->input(0);
  ASSIGN_OR_RETURN(const Bags<T> bags,
                   ReadBags<T>(*context, 1, rows.dim(0), rows.dim(1), combiner));
  Tensor out(rows.dtype(), Shape{bags.bags, bags.width});
  const T* in = rows.data<T>();
  T* po = out.mutable_data<T>();
  const int64_t per_bag = bags.bags == 0 ? 1 : bags.entries / bags.bags + 1;
  context->pool()->ParallelFor(
      bags.bags, RowGrain(bags.width * per_bag),
      [&](int64_t begin, int64_t end) { CombineBags(bags, in, begin, end, po); });
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

template <typename T>
absl::Status BagGrad(graph::KernelContext* context, Combiner combiner) {
  const Tensor &grad = context->input(0), &rows = context->input(1);
  ASSIGN_OR_RETURN(const Bags<T> bags,
                   ReadBags<T>(*context, 2, rows.dim(0), rows.dim(1), combiner));
  Tensor out(rows.dtype(), rows.shape());
  const T* pg = grad.data<T>();
  T* po = out.mutable_data<T>();
  const int64_t per_row = rows.dim(0) == 0 ? 1 : bags.entries / rows.dim(0) + 1;
  if (out.num_elements() > 0) {
    context->pool()->ParallelFor(
        rows.dim(0), RowGrain(bags.width * per_row),
        [&](int64_t begin, int64_t end) { SpreadBags(bags, pg, begin, end, po); });
  }
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

class BagKernel final : public graph::Kernel {
 public:
  BagKernel(Combiner combiner, bool gradient) : combiner_(combiner), gradient_(gradient) {}

  absl::Status Compute(graph::KernelContext* context) const override {
    RETURN_IF_ERROR(gradient_ ? CheckBagGrad(*context).status() : CheckBag(*context));
    const bool f32 = context->input(0).dtype() == DType::kF32;
    if (gradient_) {
      return f32 ? BagGrad<float>(context, combiner_) : BagGrad<double>(context, combiner_);
    }
    return f32 ? Bag<float>(context, combiner_) : Bag<double>(context, combiner_);
  }

 private:
  const Combiner combiner_;
  const bool gradient_;
};

graph::KernelFactory BagFactory(bool gradient) {
  return [gradient](const graph::Node& node) -> absl::StatusOr<std::unique_ptr<graph::Kernel>> {
    ASSIGN_OR_RETURN(const Combiner combiner, ParseCombiner(node.attrs));
    return std::unique_ptr<graph::Kernel>(new BagKernel(combiner, gradient));
  };
}

}  // namespace

void RegisterEmbeddingBag(graph::OpRegistry* registry) {
  registry->Register({.name = "EmbeddingBag",
                      .min_inputs = 3,
                      .max_inputs = 4,
                      .infer = InferBag,
                      .gradient = BagGradient,
                      .attrs = {"combiner"}});
  registry->RegisterKernel("EmbeddingBag", BagFactory(false));

  registry->Register({.name = "EmbeddingBagGrad",
                      .min_inputs = 4,
                      .max_inputs = 5,
                      .infer = InferBagGrad,
                      .gradient = BagGradGradient,
                      .attrs = {"combiner"}});
  registry->RegisterKernel("EmbeddingBagGrad", BagFactory(true));
}

}  // namespace coxswain::kernels
