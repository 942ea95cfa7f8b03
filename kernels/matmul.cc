// Products of matrices.
//
//   MatMul(a [m,k], b [k,n]) -> [m,n]                 c = op(a) op(b)
//   BatchMatMul(a [b,m,k], b [b,k,n]) -> [b,m,n]      c[i] = op(a[i]) op(b[i])
//   FusedDense(x [m,k], w [k,n], bias [n]) -> [m,n]   y = activation(x w + bias)
//
// op transposes when the attribute transpose_a (transpose_b) is set; the shapes above are those
// after it. Gradients, with g = d(loss)/dc and A, B the inputs as they are stored:
//   c = A  B :  dA = g B'   dB = A' g        c = A  B':  dA = g B    dB = g' A
//   c = A' B :  dA = B g'   dB = A g         c = A' B':  dA = B' g'  dB = g' A'
// The attribute compute = "bf16" asks for products of f32 inputs in bf16, summed in f32 (see
// compute.h); gradients inherit it.

#include <memory>
#include <string>

#include "kernels/compute.h"
#include "kernels/product.h"
#include "kernels/register_list.h"
#include "kernels/validate.h"
#include "runtime/base/status.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/kernel.h"

namespace coxswain::kernels {
namespace {

bool Transposes(const Attrs& attrs, const char* name) {
  return graph::AttrOr<bool>(attrs, name, false);
}

// The product of inputs 0 and 1. Its sizes may be unknown when the graph is built.
template <typename Context>
absl::StatusOr<MatMulProblem> CheckProduct(const Context& c, int rank, bool ta, bool tb) {
  for (int i : {0, 1}) RETURN_IF_ERROR(WantRank(c, i, rank));
  RETURN_IF_ERROR(WantFloat(c, 0));
  RETURN_IF_ERROR(WantSameDType(c, 0, 1));
  const Shape &a = ShapeOfInput(c, 0), &b = ShapeOfInput(c, 1);
  const int row = rank - 2, column = rank - 1;
  const auto inner =
      MergeDims(a.dim(ta ? row : column), b.dim(tb ? column : row), "inner dimension");
  if (!inner.ok()) {
    return Annotate(inner.status(), absl::StrCat("product of ", a.ToString(), ta ? "'" : "",
                                                 " and ", b.ToString(), tb ? "'" : ""));
  }
  MatMulProblem p;
  p.transpose_a = ta;
  p.transpose_b = tb;
  if (rank == 3) {
    ASSIGN_OR_RETURN(p.batch, MergeDims(a.dim(0), b.dim(0), "batch dimension"));
  }
  p.m = a.dim(ta ? column : row);
  p.k = *inner;
  p.n = b.dim(tb ? row : column);
  return p;
}

// FusedDense: a product of matrices and a bias of its width.
template <typename Context>
absl::StatusOr<MatMulProblem> CheckDense(const Context& c) {
  ASSIGN_OR_RETURN(MatMulProblem p, CheckProduct(c, 2, false, false));
  RETURN_IF_ERROR(WantRank(c, 2, 1));
  RETURN_IF_ERROR(WantSameDType(c, 0, 2));
  ASSIGN_OR_RETURN(p.n, MergeDims(p.n, ShapeOfInput(c, 2).dim(0),
                                  "columns of the weights and length of the bias"));
  return p;
}

Shape ResultOf(const MatMulProblem& p, int rank) {
  return rank == 3 ? Shape{p.batch, p.m, p.n} : Shape{p.m, p.n};
}

// MatMul has rank 2, BatchMatMul rank 3.
absl::Status InferProduct(graph::InferenceContext* c, int rank) {
  RETURN_IF_ERROR(ReadComputing(c->attrs()).status());
  ASSIGN_OR_RETURN(const MatMulProblem p,
                   CheckProduct(*c, rank, Transposes(c->attrs(), "transpose_a"),
                                Transposes(c->attrs(), "transpose_b")));
  c->AddOutput(c->dtype(0), ResultOf(p, rank));
  return absl::OkStatus();
}

absl::Status ProductGradient(graph::GradientContext* c, const char* op) {
  const bool ta = Transposes(c->attrs(), "transpose_a"), tb = Transposes(c->attrs(), "transpose_b");
  const Output g = c->output_gradient(0), a = c->input(0), b = c->input(1);
  auto product = [&](Output x, Output y, bool tx, bool ty) {
    return c->Op(op, {x, y}, WithCompute({{"transpose_a", tx}, {"transpose_b", ty}}, c->attrs()));
  };
  c->SetInputGradient(0, ta ? product(b, g, tb, true) : product(g, b, false, !tb));
  c->SetInputGradient(1, tb ? product(g, a, true, ta) : product(a, g, !ta, false));
  return absl::OkStatus();
}

// Runs `p` on the inputs 0 and 1 and, if there is an input 2, with it as the bias.
absl::Status RunProduct(graph::KernelContext* context, const MatMulProblem& p, Shape out_shape) {
  Tensor out(context->input(0).dtype(), std::move(out_shape));
  const Tensor* bias = context->num_inputs() > 2 ? &context->input(2) : nullptr;
  RETURN_IF_ERROR(
      ComputeProduct(p, context->input(0), context->input(1), bias, &out, context->pool()));
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

class ProductKernel final : public graph::Kernel {
 public:
  ProductKernel(int rank, const Attrs& attrs, const Computing& computing)
      : rank_(rank),
        computing_(computing),
        transpose_a_(Transposes(attrs, "transpose_a")),
        transpose_b_(Transposes(attrs, "transpose_b")) {}

  absl::Status Compute(graph::KernelContext* context) const override {
    ASSIGN_OR_RETURN(MatMulProblem p, CheckProduct(*context, rank_, transpose_a_, transpose_b_));
    computing_.SetIn(&p);
    return RunProduct(context, p, ResultOf(p, rank_));
  }

 private:
  const int rank_;
  const Computing computing_;
  const bool transpose_a_, transpose_b_;
};

graph::KernelFactory ProductFactory(int rank) {
  return [rank](const graph::Node& node) -> absl::StatusOr<std::unique_ptr<graph::Kernel>> {
    ASSIGN_OR_RETURN(const Computing computing, ReadComputing(node.attrs));
    return std::unique_ptr<graph::Kernel>(new ProductKernel(rank, node.attrs, computing));
  };
}

absl::StatusOr<bool> HasRelu(const Attrs& attrs) {
  const std::string activation = graph::AttrOr<std::string>(attrs, "activation", "");
  if (activation.empty() || activation == "relu") return !activation.empty();
  return absl::InvalidArgumentError(
      absl::StrCat("attribute 'activation': wanted '' or 'relu', found '", activation, "'"));
}

absl::Status InferFusedDense(graph::InferenceContext* c) {
  RETURN_IF_ERROR(HasRelu(c->attrs()).status());
  RETURN_IF_ERROR(ReadComputing(c->attrs()).status());
  ASSIGN_OR_RETURN(const MatMulProblem p, CheckDense(*c));
  c->AddOutput(c->dtype(0), ResultOf(p, 2));
  return absl::OkStatus();
}

absl::Status FusedDenseGradient(graph::GradientContext* c) {
  ASSIGN_OR_RETURN(const bool relu, HasRelu(c->attrs()));
  Output g = c->output_gradient(0);
  if (relu) g = c->Op("ReluGrad", {g, c->output(0)});
  c->SetInputGradient(
      0, c->Op("MatMul", {g, c->input(1)}, WithCompute({{"transpose_b", true}}, c->attrs())));
  c->SetInputGradient(
      1, c->Op("MatMul", {c->input(0), g}, WithCompute({{"transpose_a", true}}, c->attrs())));
  c->SetInputGradient(
      2, c->Op("ReduceSum", {g}, {{"axes", std::vector<int64_t>{0}}, {"keep_dims", false}}));
  return absl::OkStatus();
}

class FusedDenseKernel final : public graph::Kernel {
 public:
  FusedDenseKernel(bool relu, const Computing& computing) : relu_(relu), computing_(computing) {}

  absl::Status Compute(graph::KernelContext* context) const override {
    ASSIGN_OR_RETURN(MatMulProblem p, CheckDense(*context));
    p.relu = relu_;
    computing_.SetIn(&p);
    return RunProduct(context, p, ResultOf(p, 2));
  }

 private:
  const bool relu_;
  const Computing computing_;
};

}  // namespace

void RegisterMatMul(graph::OpRegistry* registry) {
  graph::OpSchema matmul{.name = "MatMul", .min_inputs = 2, .max_inputs = 2};
  matmul.infer = [](graph::InferenceContext* c) { return InferProduct(c, 2); };
  matmul.attrs = {"transpose_a", "transpose_b", kComputeAttr, kSameOnAnyThreadsAttr};
  matmul.gradient = [](graph::GradientContext* c) { return ProductGradient(c, "MatMul"); };
  registry->Register(matmul);
  registry->RegisterKernel("MatMul", ProductFactory(2));

  graph::OpSchema batched{.name = "BatchMatMul", .min_inputs = 2, .max_inputs = 2};
  batched.infer = [](graph::InferenceContext* c) { return InferProduct(c, 3); };
  batched.attrs = {"transpose_a", "transpose_b", kComputeAttr, kSameOnAnyThreadsAttr};
  batched.gradient = [](graph::GradientContext* c) { return ProductGradient(c, "BatchMatMul"); };
  registry->Register(batched);
  registry->RegisterKernel("BatchMatMul", ProductFactory(3));

  registry->Register({.name = "FusedDense",
                      .min_inputs = 3,
                      .max_inputs = 3,
                      .infer = InferFusedDense,
                      .gradient = FusedDenseGradient,
                      .attrs = {"activation", kComputeAttr, kSameOnAnyThreadsAttr}});
  registry->RegisterKernel(
      "FusedDense", [](const graph::Node& node) -> absl::StatusOr<std::unique_ptr<graph::Kernel>> {
        ASSIGN_OR_RETURN(const bool relu, HasRelu(node.attrs));
        ASSIGN_OR_RETURN(const Computing computing, ReadComputing(node.attrs));
        return std::unique_ptr<graph::Kernel>(new FusedDenseKernel(relu, computing));
      });
}

}  // namespace coxswain::kernels
