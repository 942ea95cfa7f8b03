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

#include "kernels/product.h"
#include "kernels/register_list.h"
#include "kernels/validate.h"
#include "runtime/base/status.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/kernel.h"

namespace coxswain {
namespace {

bool Transposes(const Attrs& attrs, const char* name) { return AttrOr<bool>(attrs, name, false); }

// Infers MatMul (rank 2) or BatchMatMul (rank 3).
absl::Status InferProduct(InferenceContext* c, int rank) {
  RETURN_IF_ERROR(c->WantRank(0, rank));
  RETURN_IF_ERROR(c->WantRank(1, rank));
  RETURN_IF_ERROR(c->WantDType(0, {DType::kF32, DType::kF64}));
  RETURN_IF_ERROR(c->WantSameDType(0, 1));
  RETURN_IF_ERROR(ComputesInBf16(c->attrs()).status());
  const bool ta = Transposes(c->attrs(), "transpose_a"), tb = Transposes(c->attrs(), "transpose_b");
  const Shape &a = c->shape(0), &b = c->shape(1);
  const int row = rank - 2, column = rank - 1;
  auto inner = MergeDims(a.dim(ta ? row : column), b.dim(tb ? column : row), "inner dimension");
  if (!inner.ok()) {
    return Annotate(inner.status(), absl::StrCat("product of ", a.ToString(), ta ? "'" : "",
                                                 " and ", b.ToString(), tb ? "'" : ""));
  }
  Shape out;
  if (rank == 3) {
    ASSIGN_OR_RETURN(const int64_t batch, MergeDims(a.dim(0), b.dim(0), "batch dimension"));
    out.Append(batch);
  }
  out.Append(a.dim(ta ? column : row));
  out.Append(b.dim(tb ? row : column));
  c->AddOutput(c->dtype(0), std::move(out));
  return absl::OkStatus();
}

absl::Status ProductGradient(GradientContext* c, const char* op) {
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
absl::Status RunProduct(KernelContext* context, const MatMulProblem& p, Shape out_shape) {
  Tensor out(context->input(0).dtype(), std::move(out_shape));
  const Tensor* bias = context->num_inputs() > 2 ? &context->input(2) : nullptr;
  RETURN_IF_ERROR(
      ComputeProduct(p, context->input(0), context->input(1), bias, &out, context->pool()));
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

class ProductKernel final : public Kernel {
 public:
  ProductKernel(int rank, const Attrs& attrs, bool bf16)
      : rank_(rank),
        bf16_(bf16),
        transpose_a_(Transposes(attrs, "transpose_a")),
        transpose_b_(Transposes(attrs, "transpose_b")) {}

  absl::Status Compute(KernelContext* context) const override {
    RETURN_IF_ERROR(WantFloatInput(*context, 0, rank_));
    RETURN_IF_ERROR(WantInput(*context, 1, context->input(0).dtype(), rank_));
    const Shape &a = context->input(0).shape(), &b = context->input(1).shape();
    const int row = rank_ - 2, column = rank_ - 1;
    MatMulProblem p;
    p.bf16 = bf16_;
    p.transpose_a = transpose_a_;
    p.transpose_b = transpose_b_;
    p.batch = rank_ == 3 ? a.dim(0) : 1;
    p.m = a.dim(transpose_a_ ? column : row);
    p.k = a.dim(transpose_a_ ? row : column);
    p.n = b.dim(transpose_b_ ? row : column);
    if (b.dim(transpose_b_ ? column : row) != p.k || (rank_ == 3 && b.dim(0) != p.batch)) {
      return absl::InvalidArgumentError(
          absl::StrCat("product of ", a.ToString(), transpose_a_ ? "'" : "", " and ", b.ToString(),
                       transpose_b_ ? "'" : "", ": the inner or batch dimensions differ"));
    }
    return RunProduct(context, p, rank_ == 3 ? Shape{p.batch, p.m, p.n} : Shape{p.m, p.n});
  }

 private:
  const int rank_;
  const bool bf16_;
  const bool transpose_a_, transpose_b_;
};

KernelFactory ProductFactory(int rank) {
  return [rank](const Node& node) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    ASSIGN_OR_RETURN(const bool bf16, ComputesInBf16(node.attrs));
    return std::unique_ptr<Kernel>(new ProductKernel(rank, node.attrs, bf16));
  };
}

absl::StatusOr<bool> HasRelu(const Attrs& attrs) {
  const std::string activation = AttrOr<std::string>(attrs, "activation", "");
  if (activation.empty() || activation == "relu") return !activation.empty();
  return absl::InvalidArgumentError(
      absl::StrCat("attribute 'activation': wanted '' or 'relu', found '", activation, "'"));
}

absl::Status InferFusedDense(InferenceContext* c) {
  RETURN_IF_ERROR(HasRelu(c->attrs()).status());
  RETURN_IF_ERROR(InferProduct(c, 2));
  RETURN_IF_ERROR(c->WantRank(2, 1));
  RETURN_IF_ERROR(c->WantSameDType(0, 2));
  ASSIGN_OR_RETURN(const int64_t n, MergeDims(c->outputs()[0].shape.dim(1), c->shape(2).dim(0),
                                              "columns of the weights and length of the bias"));
  c->outputs()[0].shape.set_dim(1, n);
  return absl::OkStatus();
}

absl::Status FusedDenseGradient(GradientContext* c) {
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

class FusedDenseKernel final : public Kernel {
 public:
  FusedDenseKernel(bool relu, bool bf16) : relu_(relu), bf16_(bf16) {}

  absl::Status Compute(KernelContext* context) const override {
    RETURN_IF_ERROR(WantFloatInput(*context, 0, 2));
    const Tensor &x = context->input(0), &w = context->input(1);
    RETURN_IF_ERROR(WantInput(*context, 1, x.dtype(), 2));
    RETURN_IF_ERROR(WantInput(*context, 2, x.dtype(), 1));
    if (x.dim(1) != w.dim(0)) {
      return absl::InvalidArgumentError(absl::StrCat("product of ", x.shape().ToString(), " and ",
                                                     w.shape().ToString(),
                                                     ": the inner dimensions differ"));
    }
    RETURN_IF_ERROR(WantInputShape(*context, 2, Shape{w.dim(1)}));
    MatMulProblem p;
    p.m = x.dim(0);
    p.k = x.dim(1);
    p.n = w.dim(1);
    p.relu = relu_;
    p.bf16 = bf16_;
    return RunProduct(context, p, Shape{p.m, p.n});
  }

 private:
  const bool relu_, bf16_;
};

}  // namespace

void RegisterMatMul(OpRegistry* registry) {
  OpSchema matmul{.name = "MatMul", .min_inputs = 2, .max_inputs = 2};
  matmul.infer = [](InferenceContext* c) { return InferProduct(c, 2); };
  matmul.gradient = [](GradientContext* c) { return ProductGradient(c, "MatMul"); };
  registry->Register(matmul);
  registry->RegisterKernel("MatMul", DeviceType::kCpu, ProductFactory(2));

  OpSchema batched{.name = "BatchMatMul", .min_inputs = 2, .max_inputs = 2};
  batched.infer = [](InferenceContext* c) { return InferProduct(c, 3); };
  batched.gradient = [](GradientContext* c) { return ProductGradient(c, "BatchMatMul"); };
  registry->Register(batched);
  registry->RegisterKernel("BatchMatMul", DeviceType::kCpu, ProductFactory(3));

  registry->Register({.name = "FusedDense",
                      .min_inputs = 3,
                      .max_inputs = 3,
                      .infer = InferFusedDense,
                      .gradient = FusedDenseGradient});
  registry->RegisterKernel("FusedDense", DeviceType::kCpu,
                           [](const Node& node) -> absl::StatusOr<std::unique_ptr<Kernel>> {
                             ASSIGN_OR_RETURN(const bool relu, HasRelu(node.attrs));
                             ASSIGN_OR_RETURN(const bool bf16, ComputesInBf16(node.attrs));
                             return std::unique_ptr<Kernel>(new FusedDenseKernel(relu, bf16));
                           });
}

}  // namespace coxswain
