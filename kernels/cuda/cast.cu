// Cast between any two dtypes; the rules are in kernels/cast.cc.
#include <type_traits>

#include "kernels/cuda/op_list.h"

namespace coxswain::cuda {
namespace {

template <typename To, typename From>
COX_DEVICE To Convert(From x) {
  if constexpr (std::is_same_v<From, Bf16>) {
    if constexpr (std::is_same_v<To, Bf16>) {
      return x;
    } else {
      return Convert<To>(x.ToFloat());
    }
  } else if constexpr (std::is_same_v<To, Bf16>) {
    return Bf16::FromFloat(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // 2^31 and 2^63 are exact in both floating types, the largest integers are not.
    constexpr From kEnd = static_cast<From>(sizeof(To) == 4 ? 0x1p31 : 0x1p63);
    constexpr To kLeast = static_cast<To>(uint64_t{1} << (8 * sizeof(To) - 1)), kMost = ~kLeast;
    if (!(x > -kEnd)) return x != x ? To{0} : kLeast;
    return x >= kEnd ? kMost : static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <typename To, typename From>
struct CastOp {
  const From* x;
  COX_DEVICE To operator()(int64_t i) const { return Convert<To>(x[i]); }
};

template <typename F>
Status DispatchAll(int32_t dtype, const F& f) {
  if (dtype == COX_BOOL) return f(bool{});
  if (dtype == COX_BF16) return f(Bf16{});
  return DispatchNumber(dtype, f);
}

Status RunCast(const Run& run) {
  const CoxTensor &x = run.input(0), &out = run.output(0);
  if (x.dtype == out.dtype) return PassOn(run, x, out);
  return DispatchAll(x.dtype, [&](auto from) {
    return DispatchAll(out.dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      return FillElements(run.queue(), Data<To>(out), Elements(out),
                          CastOp<To, From>{Data<From>(x)});
    });
  });
}

}  // namespace

void AddCast(OpTable* table) { table->Add("Cast", AllTypes(), RunCast); }

}  // namespace coxswain::cuda
