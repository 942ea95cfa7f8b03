// OneHot(ids; depth, dtype = f32): for each id a vector of `depth` zeros with a 1 at its place.
// ids i32 or i64 of any shape; an id outside 0 to depth-1 is an error. No derivative.

#include "kernels/cpu/index_check.h"
#include "kernels/op_util.h"
#include "kernels/register_list.h"
#include "runtime/tensor/limits.h"

namespace coxswain::kernels {
namespace {

struct OneHotAttrs {
  int64_t depth = 0;
  DType dtype = DType::kF32;
};

absl::StatusOr<OneHotAttrs> ReadOneHot(const Attrs& attrs) {
  OneHotAttrs a;
  ASSIGN_OR_RETURN(a.depth, graph::GetAttr<int64_t>(attrs, "depth"));
  ASSIGN_OR_RETURN(a.dtype, OptionalAttr<DType>(attrs, "dtype", DType::kF32));
  if (a.depth < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute 'depth': wanted 1 or more, found ", a.depth));
  }
  if (a.dtype != DType::kF32 && a.dtype != DType::kF64) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute 'dtype': wanted f32 or f64, found ", DTypeName(a.dtype)));
  }
  return a;
}

absl::Status Infer(graph::InferenceContext* context) {
  RETURN_IF_ERROR(context->WantDType(0, {DType::kI32, DType::kI64}));
  ASSIGN_OR_RETURN(const OneHotAttrs a, ReadOneHot(context->attrs()));
  Shape shape = context->shape(0);
  shape.Append(a.depth);
  context->AddOutput(a.dtype, std::move(shape));
  return absl::OkStatus();
}

absl::Status Compute(const OneHotAttrs& a, graph::KernelContext* context) {
  const Tensor& ids = context->input(0);
  Shape shape = ids.shape();
  shape.Append(a.depth);
  RETURN_IF_ERROR(CheckedElements(shape).status());
  RETURN_IF_ERROR(CheckIndices(ids, a.depth, "depth"));
  Tensor out = Tensor::Zeros(a.dtype, shape);
  RETURN_IF_ERROR(DispatchIndex(ids.dtype(), [&](auto id_type) {
    return DispatchFloat(a.dtype, [&](auto value_type) {
      using Id = decltype(id_type);
      using T = decltype(value_type);
      const Id* id = ids.data<Id>();
      T* values = out.mutable_data<T>();
      for (int64_t i = 0; i < ids.num_elements(); ++i) values[i * a.depth + id[i]] = T{1};
      return absl::OkStatus();
    });
  }));
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

}  // namespace

void RegisterOneHot(graph::OpRegistry* registry) {
  registry->Register({.name = "OneHot",
                      .min_inputs = 1,
                      .max_inputs = 1,
                      .not_differentiable = true,
                      .infer = Infer,
                      .attrs = {"depth", "dtype"}});
  registry->RegisterKernel("OneHot", AttrKernel<OneHotAttrs>(ReadOneHot, Compute));
}

}  // namespace coxswain::kernels
