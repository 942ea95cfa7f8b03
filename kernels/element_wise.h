// The kernels of element-wise ops, made of a struct with `static T Apply(...)` (COX_SIMD_INLINE).
#pragma once

#include "kernels/cpu/broadcast.h"
#include "kernels/cpu/simd.h"
#include "kernels/op_util.h"
#include "kernels/validate.h"

namespace coxswain::kernels {

// One piece of a row; a stride is 1, or 0 for an input that repeats one value.
template <typename Op, typename T, typename R>
void BinaryRow(const T* a, int64_t a_stride, const T* b, int64_t b_stride, R* out, int64_t n) {
  RunSimd([=]() COX_SIMD_BODY {
    if (a_stride != 0 && b_stride != 0) {
      COX_SIMD_LOOP
      for (int64_t i = 0; i < n; ++i) out[i] = Op::Apply(a[i], b[i]);
    } else if (a_stride != 0) {
      const T right = *b;
      COX_SIMD_LOOP
      for (int64_t i = 0; i < n; ++i) out[i] = Op::Apply(a[i], right);
    } else {
      const T left = *a;
      COX_SIMD_LOOP
      for (int64_t i = 0; i < n; ++i) out[i] = Op::Apply(left, b[i]);
    }
  });
}

// out[i] = Op(a[i], b[i]) with broadcasting; in place when R is T and an input is owned.
template <typename Op, typename T, typename R>
absl::Status BinaryCompute(graph::KernelContext* context) {
  RETURN_IF_ERROR(WantDType(*context, 0, {DTypeOf<T>::value}));
  RETURN_IF_ERROR(WantDType(*context, 1, {DTypeOf<T>::value}));
  ASSIGN_OR_RETURN(const BroadcastPlan plan,
                   PlanBroadcast(context->input(0).shape(), context->input(1).shape()));
  Tensor out = std::is_same_v<T, R> ? context->ForwardAnyOrAllocate(DTypeOf<R>::value, plan.shape)
                                    : Tensor(DTypeOf<R>::value, plan.shape);
  const T* a = context->input(0).data<T>();
  const T* b = context->input(1).data<T>();
  R* result = out.mutable_data<R>();
  const int64_t a_stride = plan.a_strides.back(), b_stride = plan.b_strides.back();
  ForEachRow(plan, context->pool(), [&](int64_t ia, int64_t ib, int64_t io, int64_t n) {
    BinaryRow<Op, T, R>(a + ia, a_stride, b + ib, b_stride, result + io, n);
  });
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

// The same for inputs that must have the same shape: gradients of activations.
template <typename Op>
absl::Status SameShapeCompute(graph::KernelContext* context) {
  RETURN_IF_ERROR(WantSameInputs(*context, 0, 1));
  return DispatchFloat(context->input(0).dtype(), [&](auto t) {
    return BinaryCompute<Op, decltype(t), decltype(t)>(context);
  });
}

// out[i] = Op(x[i]) for f32 and f64, in place when x is owned. `grain` elements are worth a thread.
template <typename Op>
absl::Status UnaryCompute(graph::KernelContext* context, int64_t grain) {
  return DispatchFloat(context->input(0).dtype(), [&](auto t) {
    using T = decltype(t);
    Tensor out = context->ForwardOrAllocate(0, DTypeOf<T>::value, context->input(0).shape());
    const T* x = context->input(0).data<T>();
    T* result = out.mutable_data<T>();
    context->pool()->ParallelFor(out.num_elements(), grain, [&](int64_t begin, int64_t end) {
      RunSimd([=]() COX_SIMD_BODY {
        COX_SIMD_LOOP
        for (int64_t i = begin; i < end; ++i) result[i] = Op::Apply(x[i]);
      });
    });
    context->set_output(0, std::move(out));
    return absl::OkStatus();
  });
}

}  // namespace coxswain::kernels
