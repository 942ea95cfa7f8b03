// CheckGradient passes its input on; a number that is NaN or infinite is a fault.
#include "kernels/cuda/op_list.h"

namespace coxswain::cuda {
namespace {

COX_DEVICE bool IsNumber(float x) { return IsFinite(x); }
COX_DEVICE bool IsNumber(double x) { return IsFinite(x); }
COX_DEVICE bool IsNumber(Bf16 x) { return IsFinite(x.ToFloat()); }

template <typename T>
struct CheckedValue {
  const T* x;
  FaultSink faults;

  COX_DEVICE T operator()(int64_t i) const {
    const T value = x[i];
    if (!IsNumber(value)) faults.NotFinite(0, i);
    return value;
  }
};

template <typename T>
struct CheckOnly {
  CheckedValue<T> check;
  COX_DEVICE void operator()(int64_t i) const { (void)check(i); }
};

Status RunCheck(const Run& run) {
  const CoxTensor &x = run.input(0), &out = run.output(0);
  const auto check = [&](auto zero) {
    using T = decltype(zero);
    const CheckedValue<T> value{Data<T>(x), run.faults()};
    if (x.data == out.data) return ForElements(run.queue(), Elements(x), CheckOnly<T>{value});
    return FillElements(run.queue(), Data<T>(out), Elements(x), value);
  };
  return x.dtype == COX_BF16 ? check(Bf16{}) : DispatchFloat(x.dtype, check);
}

}  // namespace

void AddCheckGradient(OpTable* table) {
  table->Add("CheckGradient", {COX_F32, COX_F64, COX_BF16}, RunCheck);
}

}  // namespace coxswain::cuda
