// AddN(x_0, ..., x_n-1) = their sum; all of one shape. d x_i = g. It joins the gradients of a value
// that is used several times. f32, f64.
#include <algorithm>

#include "kernels/element_wise.h"
#include "kernels/register_list.h"

namespace coxswain::kernels {
namespace {

absl::Status Infer(graph::InferenceContext* context) {
  RETURN_IF_ERROR(context->WantDType(0, {DType::kF32, DType::kF64}));
  Shape shape = context->shape(0);
  for (int i = 1; i < context->num_inputs(); ++i) {
    RETURN_IF_ERROR(context->WantSameDType(0, i));
    auto merged = MergeShapes(shape, context->shape(i));
    if (!merged.ok()) return Annotate(merged.status(), absl::StrCat("inputs 0 and ", i));
    shape = *std::move(merged);
  }
  context->AddOutput(context->dtype(0), std::move(shape));
  return absl::OkStatus();
}

absl::Status Gradient(graph::GradientContext* context) {
  for (int i = 0; i < context->num_inputs(); ++i) {
    context->SetInputGradient(i, context->output_gradient(0));
  }
  return absl::OkStatus();
}

// A block at a time: all inputs' parts of a block are read before its sum is written, so the result
// may take the place of any of the inputs, and the running sum stays in the first-level cache.
template <typename T>
void SumBlocks(const std::vector<const T*>& inputs, T* out, int64_t begin, int64_t end) {
  constexpr int64_t kBlock = 1024;
  alignas(64) T sum[kBlock];
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t n = std::min(kBlock, end - at);
    RunSimd([&]() COX_SIMD_BODY {
      std::copy_n(inputs[0] + at, n, sum);
      for (size_t k = 1; k < inputs.size(); ++k) {
        const T* x = inputs[k] + at;
        COX_SIMD_LOOP
        for (int64_t i = 0; i < n; ++i) sum[i] += x[i];
      }
      std::copy_n(sum, n, out + at);
    });
  }
}

absl::Status Compute(graph::KernelContext* context) {
  for (int i = 1; i < context->num_inputs(); ++i) {
    RETURN_IF_ERROR(WantSameInputs(*context, 0, i));
  }
  return DispatchFloat(context->input(0).dtype(), [&](auto t) {
    using T = decltype(t);
    Tensor out = context->ForwardAnyOrAllocate(DTypeOf<T>::value, context->input(0).shape());
    std::vector<const T*> inputs;
    for (int i = 0; i < context->num_inputs(); ++i) inputs.push_back(context->input(i).data<T>());
    T* result = out.mutable_data<T>();
    context->pool()->ParallelFor(
        out.num_elements(), kElementGrain,
        [&](int64_t begin, int64_t end) { SumBlocks(inputs, result, begin, end); });
    context->set_output(0, std::move(out));
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterAddN(graph::OpRegistry* registry) {
  registry->Register(
      {.name = "AddN", .min_inputs = 1, .max_inputs = -1, .infer = Infer, .gradient = Gradient});
  registry->RegisterKernel("AddN", graph::StatelessKernel(Compute));
}

}  // namespace coxswain::kernels
