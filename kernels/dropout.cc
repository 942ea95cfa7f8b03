// Dropout(x; rate, seed = 0): y = x / (1 - rate) with a probability of 1 - rate, and 0 else, by
// element (Srivastava et al., 2014; "inverted", so that nothing has to be scaled without it). f32
// and f64; 0 <= rate < 1.
//
// Which elements are kept is a function of the closure's seed, its step, the attribute `seed` and
// the element's index, as for the ops of random_ops.cc: element i is kept if number i of
// RandomUniform with this seed is `rate` or more. So a closure that runs again keeps the same
// elements, and the gradient is the op itself:
//   dx = Dropout(g; rate, seed)
#include <algorithm>

#include "kernels/cpu/philox.h"
#include "kernels/op_util.h"
#include "kernels/register_list.h"
#include "runtime/graph/builder.h"

namespace coxswain::kernels {
namespace {

struct DropoutAttrs {
  double rate = 0;
  uint64_t seed = 0;
};

absl::StatusOr<DropoutAttrs> ReadDropout(const Attrs& attrs) {
  DropoutAttrs dropout;
  ASSIGN_OR_RETURN(dropout.rate, NumberAttr(attrs, "rate", 0.0));
  ASSIGN_OR_RETURN(const int64_t seed, OptionalAttr<int64_t>(attrs, "seed", 0));
  dropout.seed = static_cast<uint64_t>(seed);
  // Written so that NaN fails; as f32, which is what is drawn.
  if (dropout.rate >= 0 && static_cast<float>(dropout.rate) < 1) return dropout;
  return absl::InvalidArgumentError(
      absl::StrCat("attribute 'rate': wanted 0 <= rate < 1, found ", dropout.rate));
}

absl::Status InferDropout(graph::InferenceContext* context) {
  RETURN_IF_ERROR(WantFloat(*context, 0));
  RETURN_IF_ERROR(ReadDropout(context->attrs()).status());
  return InferLikeInput(context);
}

absl::Status DropoutGradient(graph::GradientContext* context) {
  context->SetInputGradient(
      0, context->Op("Dropout", {context->output_gradient(0)}, context->attrs()));
  return absl::OkStatus();
}

absl::Status ComputeDropout(const DropoutAttrs& dropout, graph::KernelContext* context) {
  const Tensor& x = context->input(0);
  return DispatchFloat(x.dtype(), [&](auto type) {
    using T = decltype(type);
    const graph::StepInfo& step = context->step();
    const uint64_t key = PhiloxKey(step.seed, dropout.seed, step.step);
    const auto rate = static_cast<float>(dropout.rate);
    const T scale = T{1} / (T{1} - static_cast<T>(dropout.rate));
    const T* in = x.data<T>();
    const int64_t n = x.num_elements();
    Tensor out = context->ForwardOrAllocate(0, x.dtype(), x.shape());
    T* result = out.mutable_data<T>();
    constexpr int64_t kPerBlock = 4;
    const int64_t blocks = (n + kPerBlock - 1) / kPerBlock;
    context->pool()->ParallelFor(blocks, kElementGrain / 16, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        const PhiloxBlock drawn = Philox(key, static_cast<uint64_t>(b));
        const int64_t at = b * kPerBlock, count = std::min(kPerBlock, n - at);
        for (int64_t i = 0; i < count; ++i) {
          const float unit = static_cast<float>(drawn[i] >> 8) * 0x1p-24f;  // [0, 1)
          result[at + i] = unit >= rate ? in[at + i] * scale : T{0};
        }
      }
    });
    context->set_output(0, std::move(out));
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterDropout(graph::OpRegistry* registry) {
  registry->Register({.name = "Dropout",
                      .min_inputs = 1,
                      .max_inputs = 1,
                      .stateful = true,
                      .infer = InferDropout,
                      .gradient = DropoutGradient,
                      .attrs = {"rate", "seed"}});
  registry->RegisterKernel("Dropout", AttrKernel<DropoutAttrs>(ReadDropout, ComputeDropout));
}

}  // namespace coxswain::kernels
