// CheckGradient passes its input on; a number that is NaN or infinite is a fault.
#include "kernels/cuda/joined.h"
#include "kernels/cuda/op_list.h"
#include "kernels/cuda/pack.h"

namespace coxswain::cuda {
namespace {

COX_DEVICE double Wide(float x) { return x; }
COX_DEVICE double Wide(double x) { return x; }
COX_DEVICE double Wide(Bf16 x) { return x.ToFloat(); }

template <typename T>
struct CheckedValue {
  const T* x;
  const int64_t* ids;  // of rows; null: there are none
  int64_t width;       // of a row
  FaultSink faults;

  COX_DEVICE T operator()(int64_t i) const {
    const T value = x[i];
    Check(i, value);
    return value;
  }
  COX_DEVICE void Check(int64_t i, T value) const {
    const double wide = Wide(value);
    if (!IsFinite(wide)) faults.NotFinite(0, i, ids == nullptr ? 0 : ids[i / width], wide);
  }
};

// Pack i of the values.
template <typename T, typename P>
struct CheckOnly {
  CheckedValue<T> check;
  COX_DEVICE void operator()(int64_t i) const {
    const P pack = reinterpret_cast<const P*>(check.x)[i];
    COX_UNROLL
    for (int e = 0; e < P::kSize; ++e) check.Check(i * P::kSize + e, pack.of[e]);
  }
};

Status RunCheck(const Run& run) {
  const CoxTensor &x = run.input(0), &out = run.output(0);
  const int64_t elements = Elements(x);
  const bool by_id = run.num_inputs() == 2 && elements > 0;
  const bool passed_on = x.data == out.data;
  const KernelMemory memory = {{All(x), by_id ? All(run.input(1)) : UsedMemory()},
                               passed_on ? UsedMemory() : All(out)};
  const int64_t rows = by_id ? Elements(run.input(1)) : 1;
  if (by_id && (rows == 0 || elements % rows != 0)) return InvalidArgument("rows and ids differ");
  const auto check = [&](auto zero) {
    using T = decltype(zero);
    const int64_t* const ids = by_id ? Data<int64_t>(run.input(1)) : nullptr;
    const CheckedValue<T> value{Data<T>(x), ids, elements / rows, run.faults()};
    if (!passed_on) return FillJoined(run.stream(), Data<T>(out), elements, value, memory);
    using P = Pack<T>;
    if (SuitsPacks(Data<T>(x), elements)) {
      return ForJoined(run.stream(), elements / P::kSize, CheckOnly<T, P>{value}, memory);
    }
    return ForJoined(run.stream(), elements, CheckOnly<T, Pack<T, 1>>{value}, memory);
  };
  return x.dtype == COX_BF16 ? check(Bf16{}) : DispatchFloat(x.dtype, check);
}

}  // namespace

void AddCheckGradient(OpTable* table) {
  table->Add("CheckGradient", {COX_F32, COX_F64, COX_BF16}, RunCheck);
  table->SetPending({"CheckGradient"});
}

}  // namespace coxswain::cuda
