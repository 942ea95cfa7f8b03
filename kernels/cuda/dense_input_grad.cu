// DenseInputGrad: the product by cuBLASLt, then mask and sum by kernels of their own. cuBLASLt has
// an epilogue for both (DRELU_BGRAD), but its mask is laid out as only its own forward epilogue
// (RELU_AUX) writes it.
#include "kernels/cuda/op_list.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/reduction.h"

namespace coxswain::cuda {
namespace {

template <typename T>
struct MaskOp {
  const T *dx, *y;

  COX_DEVICE T operator()(int64_t i) const { return y[i] > T{0} ? dx[i] : T{0}; }
};

Status MakeDenseInputGrad(const Node& node, OpFunction* op) {
  COX_CUDA_RETURN_IF_ERROR(WantFirst(node, Floats()));
  ProductKind kind;
  kind.transpose_b = true;
  *op = [product = ProductOf(node, kind, 2)](const Run& run) {
    COX_CUDA_RETURN_IF_ERROR(product(run));
    const CoxTensor& dx = run.output(0);
    return DispatchFloat(dx.dtype, [&](auto zero) {
      using T = decltype(zero);
      COX_CUDA_RETURN_IF_ERROR(FillElements(run.queue(), Data<T>(dx), Elements(dx),
                                            MaskOp<T>{Data<T>(dx), Data<T>(run.input(2))}));
      return Reduce<SumReduction<T>, T>(run, dx, {true, false}, T{1}, run.output(1));
    });
  };
  return Status();
}

}  // namespace

void AddDenseInputGrad(OpTable* table) { table->Add("DenseInputGrad", MakeDenseInputGrad); }

}  // namespace coxswain::cuda
