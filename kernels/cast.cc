// Cast(x; dtype): x in another dtype; dx = Cast(g) back, between floating dtypes (none else).
//
// To bf16: rounded to nearest even. Floating to integer: towards zero; what does not fit becomes
// the nearest integer that does, NaN becomes 0. Integer to narrower integer: wraps around. To bool:
// x != 0.
#include <limits>

#include "kernels/cpu/simd.h"
#include "kernels/op_util.h"
#include "kernels/register_list.h"

namespace coxswain::kernels {
namespace {

template <typename To, typename From>
COX_SIMD_INLINE To Convert(From x) {
  if constexpr (std::is_same_v<From, BFloat16>) {
    return Convert<To>(x.ToFloat());
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return BFloat16::FromFloat(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // 2^31 and 2^63 are exact in both floating types, the largest integers are not.
    constexpr From kEnd = static_cast<From>(sizeof(To) == 4 ? 0x1p31 : 0x1p63);
    if (!(x > -kEnd)) return x != x ? To{0} : std::numeric_limits<To>::min();
    return x >= kEnd ? std::numeric_limits<To>::max() : static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <typename F>
absl::Status DispatchAll(DType dtype, F f) {
  return DispatchAmong<float, double, int32_t, int64_t, bool, BFloat16>(dtype, f);
}

absl::StatusOr<DType> ReadDType(const Attrs& attrs) {
  ASSIGN_OR_RETURN(const DType dtype, graph::GetAttr<DType>(attrs, "dtype"));
  if (SizeOf(dtype) == 0) return absl::InvalidArgumentError("attribute 'dtype': wanted a dtype");
  return dtype;
}

absl::Status Infer(graph::InferenceContext* context) {
  ASSIGN_OR_RETURN(const DType dtype, ReadDType(context->attrs()));
  context->AddOutput(dtype, context->shape(0));
  return absl::OkStatus();
}

absl::Status Gradient(graph::GradientContext* context) {
  const DType from = context->input_type(0).dtype;
  ASSIGN_OR_RETURN(const DType to, ReadDType(context->attrs()));
  if (IsFloating(from) && IsFloating(to)) {
    context->SetInputGradient(
        0, context->Op("Cast", {context->output_gradient(0)}, {{"dtype", from}}));
  }
  return absl::OkStatus();
}

absl::Status Compute(const DType& dtype, graph::KernelContext* context) {
  const Tensor& x = context->input(0);
  if (x.dtype() == dtype) {
    context->set_output(0, x);
    return absl::OkStatus();
  }
  Tensor out(dtype, x.shape());
  RETURN_IF_ERROR(DispatchAll(x.dtype(), [&](auto from) {
    return DispatchAll(dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      const From* in = x.data<From>();
      To* result = out.mutable_data<To>();
      context->pool()->ParallelFor(x.num_elements(), kElementGrain,
                                   [&](int64_t begin, int64_t end) {
                                     RunSimd([=]() COX_SIMD_BODY {
                                       COX_SIMD_LOOP
                                       for (int64_t i = begin; i < end; ++i)
                                         result[i] = Convert<To>(in[i]);
                                     });
                                   });
      return absl::OkStatus();
    });
  }));
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

}  // namespace

void RegisterCast(graph::OpRegistry* registry) {
  registry->Register({.name = "Cast",
                      .min_inputs = 1,
                      .max_inputs = 1,
                      .infer = Infer,
                      .gradient = Gradient,
                      .attrs = {"dtype"}});
  registry->RegisterKernel("Cast", AttrKernel<DType>(ReadDType, Compute));
}

}  // namespace coxswain::kernels
