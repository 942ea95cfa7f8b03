// Arithmetic on two inputs, with NumPy's broadcasting. f32 and f64; Add, Sub and Mul also i32 and
// i64, which wrap around.
#include <type_traits>

#include "kernels/cuda/broadcast.h"
#include "kernels/cuda/op_list.h"

namespace coxswain::cuda {
namespace {

// Arithmetic in the unsigned type: wraps instead of being undefined.
template <typename T, bool kInteger = std::is_integral_v<T>>
struct WrappingType {
  using type = T;
};
template <typename T>
struct WrappingType<T, true> {
  using type = std::make_unsigned_t<T>;
};
template <typename T>
using Wrapping = typename WrappingType<T>::type;

struct AddOp {
  template <typename T>
  COX_DEVICE static T Apply(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};
struct SubOp {
  template <typename T>
  COX_DEVICE static T Apply(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
  }
};
struct MulOp {
  template <typename T>
  COX_DEVICE static T Apply(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};
struct DivOp {
  template <typename T>
  COX_DEVICE static T Apply(T a, T b) {
    return a / b;
  }
};
// A NaN on either side is the result.
struct MaximumOp {
  template <typename T>
  COX_DEVICE static T Apply(T a, T b) {
    return ((a >= b) | (a != a)) ? a : b;
  }
};
struct MinimumOp {
  template <typename T>
  COX_DEVICE static T Apply(T a, T b) {
    return ((a <= b) | (a != a)) ? a : b;
  }
};

template <typename F>
Status OfNumbers(const Run& run) {
  return DispatchNumber(run.input(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return RunBinary<F, T, T>(run);
  });
}
template <typename F>
Status OfFloats(const Run& run) {
  return DispatchFloat(run.input(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return RunBinary<F, T, T>(run);
  });
}

}  // namespace

void AddBinaryOps(OpTable* table) {
  table->Add("Add", Numbers(), OfNumbers<AddOp>);
  table->Add("Sub", Numbers(), OfNumbers<SubOp>);
  table->Add("Mul", Numbers(), OfNumbers<MulOp>);
  table->Add("Div", Floats(), OfFloats<DivOp>);
  table->Add("Maximum", Floats(), OfFloats<MaximumOp>);
  table->Add("Minimum", Floats(), OfFloats<MinimumOp>);
}

}  // namespace coxswain::cuda
