// What a dense layer's gradient becomes on its way through the layer below, in one pass:
//
//   DenseInputGrad(g [m,n], w [k,n], y [m,k]) -> (dx [m,k], sum [k])
//   dx = g w' where y > 0, and 0 elsewhere       sum[j] = sum of dx[i,j] over i
//
// y is the layer's input, which a ReLU below made: so dx is the gradient before that ReLU, and sum
// that of its bias. Rows are masked and summed while they are in the cache. f32, f64.
//
// Gradients, with u = d(loss)/d(dx) + d(loss)/d(sum) for each row, and r = u where y > 0:
//   dg = r w     dw = r' g     none for y, which only decides
//
// The attribute compute is that of products (compute.h). Programs need not know the op:
// fuse_layers.h makes it of MatMul, ReluGrad and ReduceSum.
#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/compute.h"
#include "kernels/cpu/simd.h"
#include "kernels/op_util.h"
#include "kernels/product.h"
#include "kernels/register_list.h"
#include "runtime/graph/builder.h"

namespace coxswain::kernels {
namespace {

// g w', whose sizes may be unknown when the graph is built.
template <typename Context>
absl::StatusOr<MatMulProblem> Check(const Context& c) {
  RETURN_IF_ERROR(WantFloat(c, 0));
  for (int i : {0, 1, 2}) RETURN_IF_ERROR(WantRank(c, i, 2));
  for (int i : {1, 2}) RETURN_IF_ERROR(WantSameDType(c, 0, i));
  const Shape &g = ShapeOfInput(c, 0), &w = ShapeOfInput(c, 1), &y = ShapeOfInput(c, 2);
  MatMulProblem p{.transpose_b = true};
  ASSIGN_OR_RETURN(p.m, MergeDims(g.dim(0), y.dim(0), "rows of the gradient and of the input"));
  ASSIGN_OR_RETURN(p.n, MergeDims(w.dim(0), y.dim(1), "rows of w and columns of the input"));
  ASSIGN_OR_RETURN(p.k, MergeDims(g.dim(1), w.dim(1), "columns of the gradient and of w"));
  return p;
}

absl::Status Infer(graph::InferenceContext* c) {
  RETURN_IF_ERROR(ReadComputing(c->attrs()).status());
  ASSIGN_OR_RETURN(const MatMulProblem p, Check(*c));
  c->AddOutput(c->dtype(0), {p.m, p.n});
  c->AddOutput(c->dtype(0), {p.n});
  return absl::OkStatus();
}

absl::Status Gradient(graph::GradientContext* c) {
  const Output g = c->input(0), w = c->input(1), y = c->input(2);
  Output u = c->output_gradient(0);
  if (const Output of_sum = c->output_gradient(1); of_sum.valid()) {
    u = c->Op("Add", {u.valid() ? u : c->Op("ZerosLike", {y}), of_sum});
  }
  const Output r = c->Op("ReluGrad", {u, y});
  c->SetInputGradient(0, c->Op("MatMul", {r, w}, WithCompute({}, c->attrs())));
  c->SetInputGradient(1, c->Op("MatMul", {r, g}, WithCompute({{"transpose_a", true}}, c->attrs())));
  return absl::OkStatus();
}

// Masks `rows` rows in place and writes the sums of their columns.
template <typename T>
void MaskAndSum(const T* y, int64_t rows, int64_t columns, T* dx, T* sum) {
  RunSimd([=]() COX_SIMD_BODY {
    for (int64_t j = 0; j < columns; ++j) sum[j] = T{0};
    for (int64_t i = 0; i < rows; ++i) {
      const T* of = y + i * columns;
      T* row = dx + i * columns;
      COX_SIMD_LOOP
      for (int64_t j = 0; j < columns; ++j) {
        const T value = of[j] > T{0} ? row[j] : T{0};
        row[j] = value;
        sum[j] += value;
      }
    }
  });
}

// The sums of blocks of kPanelRows rows, added up in one order whoever made them.
template <typename T>
class BlockSums {
 public:
  BlockSums(int64_t rows, int64_t columns)
      : columns_(columns),
        sums_(DTypeOf<T>::value, {(rows + kPanelRows - 1) / kPanelRows, columns}),
        values_(sums_.template mutable_data<T>()) {}

  // Rows [begin, end) of dx, a whole number of blocks unless they are the last.
  void Mask(const T* y, T* dx, int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; i += kPanelRows) {
      MaskAndSum(y + i * columns_, std::min(end - i, kPanelRows), columns_, dx + i * columns_,
                 values_ + i / kPanelRows * columns_);
    }
  }
  Tensor Total() const {
    Tensor total(DTypeOf<T>::value, {columns_});
    std::vector<double> sum(columns_, 0.0);
    for (int64_t block = 0; block < sums_.dim(0); ++block) {
      for (int64_t j = 0; j < columns_; ++j) sum[j] += values_[block * columns_ + j];
    }
    std::transform(sum.begin(), sum.end(), total.template mutable_data<T>(),
                   [](double x) { return static_cast<T>(x); });
    return total;
  }

 private:
  const int64_t columns_;
  Tensor sums_;
  T* values_;
};

absl::Status ComputeF32(const MatMulProblem& p, graph::KernelContext* context) {
  Tensor dx(DType::kF32, {p.m, p.n});
  const BlockSums<float> sums(p.m, p.n);
  const float* y = context->input(2).data<float>();
  float* out = dx.mutable_data<float>();
  RETURN_IF_ERROR(MatMulPanelsF32(
      p, context->input(0).data<float>(), context->input(1).data<float>(), out, context->pool(),
      [&](int64_t begin, int64_t end) { sums.Mask(y, out, begin, end); }));
  context->set_output(0, std::move(dx));
  context->set_output(1, sums.Total());
  return absl::OkStatus();
}

absl::Status ComputeF64(const MatMulProblem& p, graph::KernelContext* context) {
  Tensor dx(DType::kF64, {p.m, p.n});
  const BlockSums<double> sums(p.m, p.n);
  RETURN_IF_ERROR(
      ComputeProduct(p, context->input(0), context->input(1), nullptr, &dx, context->pool()));
  sums.Mask(context->input(2).data<double>(), dx.mutable_data<double>(), 0, p.m);
  context->set_output(0, std::move(dx));
  context->set_output(1, sums.Total());
  return absl::OkStatus();
}

class DenseInputGradKernel final : public graph::Kernel {
 public:
  explicit DenseInputGradKernel(const Computing& computing) : computing_(computing) {}

  absl::Status Compute(graph::KernelContext* context) const override {
    ASSIGN_OR_RETURN(MatMulProblem p, Check(*context));
    computing_.SetIn(&p);
    return context->input(0).dtype() == DType::kF32 ? ComputeF32(p, context)
                                                    : ComputeF64(p, context);
  }

 private:
  const Computing computing_;
};

}  // namespace

void RegisterDenseInputGrad(graph::OpRegistry* registry) {
  registry->Register({.name = "DenseInputGrad",
                      .min_inputs = 3,
                      .max_inputs = 3,
                      .infer = Infer,
                      .gradient = Gradient,
                      .attrs = {kComputeAttr, kSameOnAnyThreadsAttr}});
  registry->RegisterKernel(
      "DenseInputGrad",
      [](const graph::Node& node) -> absl::StatusOr<std::unique_ptr<graph::Kernel>> {
        ASSIGN_OR_RETURN(const Computing computing, ReadComputing(node.attrs));
        return std::unique_ptr<graph::Kernel>(new DenseInputGradKernel(computing));
      });
}

}  // namespace coxswain::kernels
