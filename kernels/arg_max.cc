// ArgMax(x; axis = -1): the index of the largest value along `axis`, which is left out of the
// shape; i64. Of equal ones the first; a NaN counts as largest. f32, f64. An axis of size 0 is an
// error. No derivative.
#include <algorithm>

#include "kernels/op_util.h"
#include "kernels/register_list.h"

namespace coxswain::kernels {
namespace {

absl::StatusOr<int64_t> ReadAxis(const Attrs& attrs) {
  return OptionalAttr<int64_t>(attrs, "axis", -1);
}

Shape Without(const Shape& x, int axis) {
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != axis) shape.Append(x.dim(i));
  }
  return shape;
}

absl::Status Infer(graph::InferenceContext* context) {
  RETURN_IF_ERROR(context->WantDType(0, {DType::kF32, DType::kF64}));
  ASSIGN_OR_RETURN(const int64_t given, ReadAxis(context->attrs()));
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis(given, context->shape(0).rank()));
  context->AddOutput(DType::kI64, Without(context->shape(0), axis));
  return absl::OkStatus();
}

// The values lie `stride` apart.
template <typename T>
int64_t IndexOfLargest(const T* x, int64_t n, int64_t stride) {
  int64_t best = 0;
  T top = x[0];
  for (int64_t i = 1; i < n; ++i) {
    const T value = x[i * stride];
    if (value <= top) continue;  // nearly always; false for a NaN on either side
    if (value > top || (value != value && top == top)) {
      best = i;
      top = value;
    }
  }
  return best;
}

absl::Status Compute(const int64_t& given, graph::KernelContext* context) {
  const Tensor& x = context->input(0);
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis(given, x.rank()));
  const int64_t n = x.dim(axis), inner = DimsProduct(x.shape(), axis + 1, x.rank());
  const Shape shape = Without(x.shape(), axis);
  if (n == 0 && shape.num_elements() > 0) {
    return absl::InvalidArgumentError(absl::StrCat("wanted values along dimension ", axis,
                                                   ", found none: ", x.shape().ToString()));
  }
  Tensor out(DType::kI64, shape);
  RETURN_IF_ERROR(DispatchFloat(x.dtype(), [&](auto t) {
    using T = decltype(t);
    const T* values = x.data<T>();
    int64_t* result = out.mutable_data<int64_t>();
    const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, n));
    context->pool()->ParallelFor(out.num_elements(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        result[i] = IndexOfLargest(values + i / inner * n * inner + i % inner, n, inner);
      }
    });
    return absl::OkStatus();
  }));
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

}  // namespace

void RegisterArgMax(graph::OpRegistry* registry) {
  registry->Register({.name = "ArgMax",
                      .min_inputs = 1,
                      .max_inputs = 1,
                      .not_differentiable = true,
                      .infer = Infer,
                      .attrs = {"axis"}});
  registry->RegisterKernel("ArgMax", AttrKernel<int64_t>(ReadAxis, Compute));
}

}  // namespace coxswain::kernels
