// Products with a matrix that stays on its parameter server. They run on the PS that holds the
// shard W [r,c], whole rows of the variable, so neither W nor its gradient travels.
//
//   MatMulShard(x; shard, variable, dtype, shape, transpose_b) -> x op(W)
//       x [n,r] -> [n,c]; with transpose_b: x [n,c] -> [n,r].  dx = MatMulShard(g, not transpose_b)
//   ApplyMatMul(a [n,r], b [n,c], [g [r,c]]; shard, variable, dtype, shape)
//       the shard's optimizer takes the gradient a' b (+ g)
//
// With g = d(loss)/dy of y = x W the gradient of W is x' g, and that of y = x W' is g' x:
// ApplyMatMul is made with (x, g) or (g, x). Its third input is for a variable that is also read
// whole. dx is computed of the shard as it is when g arrives: updates of other workers may have
// come in between. The attribute compute is that of MatMul, update that of ApplyDense.

#include <memory>
#include <utility>

#include "kernels/check_gradient.h"
#include "kernels/compute.h"
#include "kernels/product.h"
#include "kernels/register_list.h"
#include "kernels/shard_target.h"
#include "kernels/validate.h"
#include "runtime/base/status.h"
#include "runtime/function/number_updates.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/kernel.h"

namespace coxswain::kernels {
namespace {

constexpr char kTransposeAttr[] = "transpose_b";

struct ProductAttrs {
  ShardTarget target;
  TensorType type;  // of the shard
  bool transpose = false;
  Computing computing;

  int inner() const { return transpose ? 1 : 0; }
  int outer() const { return transpose ? 0 : 1; }
};

absl::StatusOr<ProductAttrs> ParseProduct(const Attrs& attrs) {
  ProductAttrs a;
  ASSIGN_OR_RETURN(a.target, ParseShardTarget(attrs));
  ASSIGN_OR_RETURN(a.type, ParseShardType(attrs));
  if (a.type.shape.rank() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute 'shape': wanted a matrix, found ", a.type.shape.ToString()));
  }
  if (attrs.contains(kTransposeAttr)) {
    ASSIGN_OR_RETURN(a.transpose, graph::GetAttr<bool>(attrs, kTransposeAttr));
  }
  ASSIGN_OR_RETURN(a.computing, ReadComputing(attrs));
  return a;
}

// The product of `x` and a shard of the shape `w`. Dimensions may be unknown.
absl::StatusOr<MatMulProblem> ProductWith(const ProductAttrs& a, const Shape& x, const Shape& w) {
  const auto inner = MergeDims(x.dim(1), w.dim(a.inner()), "inner dimension");
  if (!inner.ok()) {
    return Annotate(inner.status(), absl::StrCat("product of ", x.ToString(), " and ", w.ToString(),
                                                 a.transpose ? "'" : ""));
  }
  MatMulProblem p;
  p.m = x.dim(0);
  p.k = *inner;
  p.n = w.dim(a.outer());
  p.transpose_b = a.transpose;
  a.computing.SetIn(&p);
  return p;
}

absl::Status InferMatMulShard(graph::InferenceContext* c) {
  ASSIGN_OR_RETURN(const ProductAttrs a, ParseProduct(c->attrs()));
  RETURN_IF_ERROR(WantRank(*c, 0, 2));
  RETURN_IF_ERROR(WantFloat(*c, 0));
  if (c->dtype(0) != a.type.dtype) {
    return c->Error(absl::StrCat("wanted the same dtype on both sides, found ",
                                 c->input(0).ToString(), " and ", a.type.ToString()));
  }
  ASSIGN_OR_RETURN(const MatMulProblem p, ProductWith(a, c->shape(0), a.type.shape));
  c->AddOutput(c->dtype(0), Shape{p.m, p.n});
  return absl::OkStatus();
}

absl::Status MatMulShardGradient(graph::GradientContext* c) {
  Attrs attrs = c->attrs();
  attrs[kTransposeAttr] = !graph::AttrOr<bool>(attrs, kTransposeAttr, false);
  c->SetInputGradient(0, c->Op("MatMulShard", {c->output_gradient(0)}, std::move(attrs)));
  return absl::OkStatus();
}

class MatMulShardKernel final : public graph::Kernel {
 public:
  explicit MatMulShardKernel(ProductAttrs attrs) : attrs_(std::move(attrs)) {}

  absl::Status Compute(graph::KernelContext* context) const override {
    ASSIGN_OR_RETURN(graph::VariableAccess * shards, ShardsOf(*context));
    RETURN_IF_ERROR(WantRank(*context, 0, 2));
    RETURN_IF_ERROR(WantDType(*context, 0, {attrs_.type.dtype}));
    const Tensor& x = context->input(0);
    const absl::StatusOr<Tensor> w = ReadTarget(shards, attrs_.target);
    if (!w.ok()) return Named(w.status(), attrs_.target);
    if (w->dtype() != attrs_.type.dtype || !attrs_.type.shape.Accepts(w->shape())) {
      return Named(
          absl::InvalidArgumentError(absl::StrCat("wanted ", attrs_.type.ToString(), ", found ",
                                                  TensorType{w->dtype(), w->shape()}.ToString())),
          attrs_.target);
    }
    const absl::StatusOr<MatMulProblem> p = ProductWith(attrs_, x.shape(), w->shape());
    if (!p.ok()) return Named(p.status(), attrs_.target);
    Tensor y(x.dtype(), Shape{p->m, p->n});
    RETURN_IF_ERROR(ComputeProduct(*p, x, *w, nullptr, &y, context->pool()));
    context->set_output(0, std::move(y));
    return absl::OkStatus();
  }

 private:
  const ProductAttrs attrs_;
};

// `shard`: what the plan says of it.
template <typename Context>
absl::Status CheckApply(const Context& c, const TensorType& shard) {
  for (int i = 0; i < c.num_inputs(); ++i) {
    RETURN_IF_ERROR(WantRank(c, i, 2));
    RETURN_IF_ERROR(WantDType(c, i, {shard.dtype}));
  }
  const Shape &a = ShapeOfInput(c, 0), &b = ShapeOfInput(c, 1), &w = shard.shape;
  RETURN_IF_ERROR(MergeDims(a.dim(0), b.dim(0), "rows of inputs 0 and 1").status());
  RETURN_IF_ERROR(MergeDims(a.dim(1), w.dim(0), "columns of input 0, rows of the shard").status());
  RETURN_IF_ERROR(MergeDims(b.dim(1), w.dim(1), "columns of input 1 and of the shard").status());
  if (c.num_inputs() < 3) return absl::OkStatus();
  const Shape& more = ShapeOfInput(c, 2);
  if (w.Accepts(more) || more.Accepts(w)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("input 2: wanted ", w.ToString(), ", found ", more.ToString()));
}

absl::Status InferApplyMatMul(graph::InferenceContext* c) {
  ASSIGN_OR_RETURN(const ProductAttrs attrs, ParseProduct(c->attrs()));
  RETURN_IF_ERROR(ParseUpdateKey(c->attrs()).status());
  RETURN_IF_ERROR(ParseRate(c->attrs()).status());
  return CheckApply(*c, attrs.type);
}

void AddTo(const Tensor& g, Tensor* sum) {
  const auto add = [&](auto zero) {
    using T = decltype(zero);
    T* to = sum->mutable_data<T>();
    const T* from = g.data<T>();
    for (int64_t i = 0; i < sum->num_elements(); ++i) to[i] += from[i];
  };
  return g.dtype() == DType::kF64 ? add(double{}) : add(float{});
}

class ApplyMatMulKernel final : public graph::Kernel {
 public:
  ApplyMatMulKernel(ProductAttrs attrs, uint32_t key, double rate)
      : attrs_(std::move(attrs)), key_(key), rate_(rate) {}

  absl::Status Compute(graph::KernelContext* context) const override {
    ASSIGN_OR_RETURN(graph::VariableAccess * shards, ShardsOf(*context));
    if (const absl::Status fits = CheckApply(*context, attrs_.type); !fits.ok()) {
      return Named(fits, attrs_.target);
    }
    const Tensor &a = context->input(0), &b = context->input(1);
    const Shape shape{a.dim(1), b.dim(1)};
    graph::Update update;
    update.kind = graph::Update::Kind::kDense;
    update.shard = attrs_.target.shard;
    update.key = key_;
    update.rate = rate_;
    update.values = Tensor(a.dtype(), shape);
    MatMulProblem p;
    p.m = a.dim(1);
    p.k = a.dim(0);
    p.n = b.dim(1);
    p.transpose_a = true;
    attrs_.computing.SetIn(&p);
    RETURN_IF_ERROR(ComputeProduct(p, a, b, nullptr, &update.values, context->pool()));
    if (context->num_inputs() == 3) {
      RETURN_IF_ERROR(WantInputShape(*context, 2, shape));
      AddTo(context->input(2), &update.values);
    }
    // The worker checks what it sends; the product of large finite numbers may overflow here.
    RETURN_IF_ERROR(CheckWholeGradient(attrs_.target.variable, update.values));
    return Named(shards->Stage(std::move(update)), attrs_.target);
  }

 private:
  const ProductAttrs attrs_;
  const uint32_t key_;
  const double rate_;
};

}  // namespace

void RegisterShardMatMul(graph::OpRegistry* registry) {
  registry->Register({.name = "MatMulShard",
                      .min_inputs = 1,
                      .max_inputs = 1,
                      .stateful = true,
                      .on_parameter_server = true,
                      .infer = InferMatMulShard,
                      .gradient = MatMulShardGradient,
                      .attrs = {"shard", "variable", "dtype", "shape", kTransposeAttr, kComputeAttr,
                                kSameOnAnyThreadsAttr, kAveragesAttr}});
  registry->RegisterKernel(
      "MatMulShard", [](const graph::Node& node) -> absl::StatusOr<std::unique_ptr<graph::Kernel>> {
        ASSIGN_OR_RETURN(ProductAttrs a, ParseProduct(node.attrs));
        return std::unique_ptr<graph::Kernel>(new MatMulShardKernel(std::move(a)));
      });
  registry->Register({.name = "ApplyMatMul",
                      .min_inputs = 2,
                      .max_inputs = 3,
                      .stateful = true,
                      .on_parameter_server = true,
                      .not_differentiable = true,
                      .infer = InferApplyMatMul,
                      .attrs = {"shard", "variable", "dtype", "shape", kTransposeAttr, kComputeAttr,
                                kSameOnAnyThreadsAttr, function::kUpdateAttr, kRateAttr}});
  registry->RegisterKernel(
      "ApplyMatMul", [](const graph::Node& node) -> absl::StatusOr<std::unique_ptr<graph::Kernel>> {
        ASSIGN_OR_RETURN(ProductAttrs a, ParseProduct(node.attrs));
        ASSIGN_OR_RETURN(const uint32_t key, ParseUpdateKey(node.attrs));
        ASSIGN_OR_RETURN(const double rate, ParseRate(node.attrs));
        return std::unique_ptr<graph::Kernel>(new ApplyMatMulKernel(std::move(a), key, rate));
      });
}

}  // namespace coxswain::kernels
