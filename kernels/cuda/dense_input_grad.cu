// DenseInputGrad: the product by cuBLASLt, then mask and sum in one pass. cuBLASLt has an epilogue
// for both (DRELU_BGRAD), but its mask is laid out as only its own forward epilogue (RELU_AUX)
// writes it.
#include "kernels/cuda/op_list.h"
#include "kernels/cuda/pack.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/reduction.h"

namespace coxswain::cuda {
namespace {

// Masks dx [rows, columns] where it lies: 0 wherever y is not positive. A thread does so for some
// columns of a part of the rows, `length` of them, and adds up what it leaves:
// sums [parts, columns].
template <typename T, typename P>
struct MaskAndSum {
  using Acc = typename SumReduction<T>::Acc;
  static constexpr int kAhead = 4;  // rows that are read before the first of them is written
  T* dx;
  const T* y;
  Acc* sums;
  int64_t rows, columns, length;

  COX_DEVICE void operator()(int64_t i) const {
    const int64_t across = columns / P::kSize;
    const int64_t part = i / across, column = (i - part * across) * P::kSize;
    const int64_t first = part * length;
    const int64_t last = first + length < rows ? first + length : rows;
    Acc sum[P::kSize] = {};
    for (int64_t row = first; row < last; row += kAhead) {
      P gradient[kAhead], output[kAhead];
      COX_UNROLL
      for (int k = 0; k < kAhead; ++k) {
        if (row + k >= last) continue;
        const int64_t at = (row + k) * columns + column;
        gradient[k] = *reinterpret_cast<const P*>(dx + at);
        output[k] = *reinterpret_cast<const P*>(y + at);
      }
      COX_UNROLL
      for (int k = 0; k < kAhead; ++k) {
        if (row + k >= last) continue;
        COX_UNROLL
        for (int e = 0; e < P::kSize; ++e) {
          if (!(output[k].of[e] > T{0})) gradient[k].of[e] = T{0};
          sum[e] += static_cast<Acc>(gradient[k].of[e]);
        }
        *reinterpret_cast<P*>(dx + (row + k) * columns + column) = gradient[k];
      }
    }
    COX_UNROLL
    for (int e = 0; e < P::kSize; ++e) sums[part * columns + column + e] = sum[e];
  }
};

template <typename T>
Status MaskAndSumUp(const Run& run) {
  constexpr int64_t kMostParts = 1024, kLength = 16;  // the shortest parts that are worth it
  const CoxTensor& dx = run.output(0);
  const int64_t rows = dx.dims[0], columns = dx.dims[1];
  T *const x = Data<T>(dx), *const total = Data<T>(run.output(1));
  const T* const y = Data<T>(run.input(2));
  if (Elements(dx) == 0)
    return Reduce<SumReduction<T>, T>(run, dx, {true, false}, T{1}, run.output(1));
  const int64_t wanted = CeilDiv(rows, kLength);
  const int64_t length = CeilDiv(rows, wanted < kMostParts ? wanted : kMostParts);
  const int64_t parts = CeilDiv(rows, length);
  using Acc = typename SumReduction<T>::Acc;
  Scratch memory;
  COX_CUDA_RETURN_IF_ERROR(
      memory.Allocate(run.stream(), static_cast<size_t>(parts * columns) * sizeof(Acc)));
  Acc* const sums = memory.data<Acc>();
  const auto mask = [&](auto pack) {
    using P = decltype(pack);
    return ForElements(run.queue(), parts * (columns / P::kSize),
                       MaskAndSum<T, P>{x, y, sums, rows, columns, length});
  };
  COX_CUDA_RETURN_IF_ERROR(SuitsPacks(x, columns) && SuitsPacks(y, columns) ? mask(Pack<T>())
                                                                            : mask(Pack<T, 1>()));
  return LaunchReduce(run.queue(), ReduceStep<SumReduction<T>, T, Acc, T>{sums, total, 1, parts,
                                                                          columns, 1, parts, T{1}});
}

Status MakeDenseInputGrad(const Node& node, OpFunction* op) {
  COX_CUDA_RETURN_IF_ERROR(WantFirst(node, Floats()));
  ProductKind kind;
  kind.transpose_b = true;
  *op = [product = ProductOf(node, kind, 2)](const Run& run) {
    COX_CUDA_RETURN_IF_ERROR(product(run));
    return DispatchFloat(run.output(0).dtype,
                         [&](auto zero) { return MaskAndSumUp<decltype(zero)>(run); });
  };
  return Status();
}

}  // namespace

void AddDenseInputGrad(OpTable* table) { table->Add("DenseInputGrad", MakeDenseInputGrad); }

}  // namespace coxswain::cuda
