// Unique(ids [n], i32 or i64) -> values [u], the different ids in the order of their first
// appearance; inverse i32 [n], the place of each id in `values`: values[inverse[i]] == ids[i]. No
// derivative.
#include <algorithm>
#include <limits>

#include "kernels/cpu/id_table.h"
#include "kernels/op_util.h"
#include "kernels/register_list.h"

namespace coxswain::kernels {
namespace {

// Returns the number of different ids.
template <typename Id>
int64_t FindUnique(const Id* ids, int64_t n, Id* values, int32_t* inverse) {
  static thread_local IdTable table;
  table.Start(n);
  table.Number(ids, n, inverse);
  const absl::Span<const int64_t> found = table.ids();
  std::transform(found.begin(), found.end(), values,
                 [](int64_t id) { return static_cast<Id>(id); });
  const auto count = static_cast<int64_t>(found.size());
  table.Finish();
  return count;
}

absl::Status Infer(graph::InferenceContext* context) {
  RETURN_IF_ERROR(context->WantDType(0, {DType::kI32, DType::kI64}));
  RETURN_IF_ERROR(context->WantRank(0, 1));
  context->AddOutput(context->dtype(0), Shape{kUnknownDim});
  context->AddOutput(DType::kI32, context->shape(0));
  return absl::OkStatus();
}

absl::Status Compute(graph::KernelContext* context) {
  const Tensor& ids = context->input(0);
  RETURN_IF_ERROR(WantRank(*context, 0, 1));
  const int64_t n = ids.num_elements();
  if (n > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("wanted fewer than 2^31 ids, found ", n));
  }
  Tensor inverse(DType::kI32, ids.shape());
  Tensor values(ids.dtype(), ids.shape());
  int64_t count = 0;
  RETURN_IF_ERROR(DispatchIndex(ids.dtype(), [&](auto t) {
    using Id = decltype(t);
    count =
        FindUnique(ids.data<Id>(), n, values.mutable_data<Id>(), inverse.mutable_data<int32_t>());
    return absl::OkStatus();
  }));
  context->set_output(0, values.SliceRows(0, count));
  context->set_output(1, std::move(inverse));
  return absl::OkStatus();
}

}  // namespace

void RegisterUnique(graph::OpRegistry* registry) {
  registry->Register({.name = "Unique",
                      .min_inputs = 1,
                      .max_inputs = 1,
                      .on_host = true,
                      .not_differentiable = true,
                      .infer = Infer});
  registry->RegisterKernel("Unique", graph::StatelessKernel(Compute));
}

}  // namespace coxswain::kernels
