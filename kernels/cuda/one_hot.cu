// OneHot: for each id a vector of zeros with a 1 at its place. Ids i32, i64.
#include "kernels/cuda/op_list.h"

namespace coxswain::cuda {
namespace {

template <typename T, typename Id>
struct OneHotOp {
  Indices<Id> ids;

  COX_DEVICE T operator()(int64_t i) const {
    const int64_t row = i / ids.bound, column = i - row * ids.bound;
    return ids.At(row, column == 0) == column ? T{1} : T{0};
  }
};

Status RunOneHot(const Run& run) {
  const CoxTensor& out = run.output(0);
  return DispatchFloat(out.dtype, [&](auto value) {
    return DispatchIndex(run.input(0).dtype, [&](auto index) {
      using T = decltype(value);
      using Id = decltype(index);
      return FillElements(run.queue(), Data<T>(out), Elements(out),
                          OneHotOp<T, Id>{IndicesOf<Id>(run, 0, out.dims[out.rank - 1])});
    });
  });
}

}  // namespace

void AddOneHot(OpTable* table) { table->Add("OneHot", {COX_I32, COX_I64}, RunOneHot); }

}  // namespace coxswain::cuda
