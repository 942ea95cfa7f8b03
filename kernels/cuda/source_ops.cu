// Ops that pass a tensor on or fill one. Const and Arg stay with whoever runs the graph: a value of
// the host is copied to the device once.
#include "kernels/cuda/op_list.h"

namespace coxswain::cuda {
namespace {

Status PassFirst(const Run& run) { return PassOn(run, run.input(0), run.output(0)); }

Status RunZeros(const Run& run) {
  return FillZero(run.stream(), run.output(0).data, Bytes(run.output(0)));
}

template <typename T>
struct Value {
  T value;
  COX_DEVICE T operator()(int64_t) const { return value; }
};

template <typename T>
Status Fill(const Run& run, T value) {
  return FillElements(run.queue(), Data<T>(run.output(0)), Elements(run.output(0)),
                      Value<T>{value});
}

Status RunOnes(const Run& run) {
  const int32_t dtype = run.output(0).dtype;
  if (dtype == COX_BOOL) return Fill<uint8_t>(run, 1);
  if (dtype == COX_BF16) return Fill<uint16_t>(run, 0x3f80);  // the bits of 1
  return DispatchNumber(dtype, [&](auto zero) {
    using T = decltype(zero);
    return Fill<T>(run, T{1});
  });
}

}  // namespace

void AddSourceOps(OpTable* table) {
  table->Add("Identity", AllTypes(), PassFirst);
  table->Add("StopGradient", AllTypes(), PassFirst);
  table->Add("ZerosLike", AllTypes(), RunZeros);
  table->Add("OnesLike", AllTypes(), RunOnes);
}

}  // namespace coxswain::cuda
