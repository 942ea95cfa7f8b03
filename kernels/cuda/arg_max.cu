// ArgMax: of equal values the first; a NaN counts as largest. f32, f64. A thread for each result.
#include "kernels/cuda/op_list.h"

namespace coxswain::cuda {
namespace {

template <typename T>
struct IndexOfLargest {
  const T* x;
  int64_t n, inner;  // values of a result, and how far apart they lie

  COX_DEVICE int64_t operator()(int64_t i) const {
    const T* values = x + i / inner * n * inner + i % inner;
    int64_t best = 0;
    T top = values[0];
    for (int64_t k = 1; k < n; ++k) {
      const T value = values[k * inner];
      if (value > top || (value != value && top == top)) {
        best = k;
        top = value;
      }
    }
    return best;
  }
};

int64_t ReadAxis(const Node& node) { return node.Integer("axis", -1); }

Status RunArgMax(const int64_t& given, const Run& run) {
  const CoxTensor &x = run.input(0), &out = run.output(0);
  const int axis = NormalizeAxis(given, x.rank);
  if (Elements(out) == 0) return Status();
  if (x.dims[axis] == 0) return InvalidArgument("wanted values along the dimension, found none");
  return DispatchFloat(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    return FillElements(
        run.queue(), Data<int64_t>(out), Elements(out),
        IndexOfLargest<T>{Data<T>(x), x.dims[axis], DimsProduct(x, axis + 1, x.rank)});
  });
}

}  // namespace

void AddArgMax(OpTable* table) { table->Add("ArgMax", Floats(), ReadAxis, RunArgMax); }

}  // namespace coxswain::cuda
