// Ops on bags: lists of ids in one array, bag i being values[offsets_i .. offsets_{i+1} - 1].
//
//   InBags(values i64 [m], offsets i32 [B+1], ids i64 [N]) -> f32 [B,N]
//     y_ij = 1 where ids_j is a value of bag i, else 0
//   BagOf(offsets i32 [B+1], values [m]) -> i64 [m]
//     the bag of each value; only the shape of `values` matters
//   PickBags(offsets i32 [B+1], bags i64 [N]) -> places i64 [n], picked i32 [N+1]
//     some of the bags, one behind the other: bag bags_i has its values at the places
//     picked_i .. picked_{i+1} - 1 of `places`, which are places of the array that has all values
//
// No derivative. Errors: InvalidArgument unless the offsets rise, from 0 or more to m or less (of
// BagOf: from 0 to m, so that each value has a bag); of PickBags for a bag that is not there, and
// for 2^31 values or more.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "kernels/cpu/index_check.h"
#include "kernels/op_util.h"
#include "kernels/register_list.h"
#include "runtime/tensor/limits.h"

namespace coxswain::kernels {
namespace {

// Returns the number of bags. `at`: the input that has the offsets.
template <typename Context>
absl::StatusOr<int64_t> CountBags(const Context& c, int at) {
  RETURN_IF_ERROR(WantRank(c, at, 1));
  RETURN_IF_ERROR(WantDType(c, at, {DType::kI32}));
  const int64_t offsets = ShapeOfInput(c, at).dim(0);
  if (offsets == kUnknownDim) return kUnknownDim;
  if (offsets > 0) return offsets - 1;
  return absl::InvalidArgumentError(
      absl::StrCat("input ", at, ": wanted one offset more than bags, found none"));
}

template <typename Context>
absl::StatusOr<Shape> CheckInBags(const Context& c) {
  for (const int i : {0, 2}) {
    RETURN_IF_ERROR(WantRank(c, i, 1));
    RETURN_IF_ERROR(WantDType(c, i, {DType::kI64}));
  }
  ASSIGN_OR_RETURN(const int64_t bags, CountBags(c, 1));
  return Shape{bags, ShapeOfInput(c, 2).dim(0)};
}

absl::Status InferInBags(graph::InferenceContext* c) {
  ASSIGN_OR_RETURN(Shape shape, CheckInBags(*c));
  c->AddOutput(DType::kF32, std::move(shape));
  return absl::OkStatus();
}

absl::Status ComputeInBags(graph::KernelContext* context) {
  ASSIGN_OR_RETURN(const Shape shape, CheckInBags(*context));
  RETURN_IF_ERROR(CheckedElements(shape).status());
  const Tensor &values = context->input(0), &ids = context->input(2);
  const absl::Span<const int32_t> offsets = context->input(1).values<int32_t>();
  RETURN_IF_ERROR(CheckOffsets(offsets, values.dim(0)));
  const int64_t bags = shape.dim(0), width = shape.dim(1);
  if (width > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("wanted fewer than 2^31 ids, found ", width));
  }
  // The last position of each id, and for each position the previous one of the same id.
  absl::flat_hash_map<int64_t, int32_t> last;
  std::vector<int32_t> before(static_cast<size_t>(width), -1);
  for (int64_t j = 0; j < width; ++j) {
    const auto [found, first] = last.emplace(ids.data<int64_t>()[j], static_cast<int32_t>(j));
    if (first) continue;
    before[static_cast<size_t>(j)] = found->second;
    found->second = static_cast<int32_t>(j);
  }
  Tensor out(DType::kF32, shape);
  float* const result = out.mutable_data<float>();
  const int64_t* const value = values.data<int64_t>();
  const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, width));
  context->pool()->ParallelFor(bags, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* const row = result + i * width;
      std::fill(row, row + width, 0.0f);
      for (int32_t e = offsets[static_cast<size_t>(i)]; e < offsets[static_cast<size_t>(i) + 1];
           ++e) {
        const auto found = last.find(value[e]);
        if (found == last.end()) continue;
        for (int32_t j = found->second; j >= 0; j = before[static_cast<size_t>(j)]) row[j] = 1;
      }
    }
  });
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

absl::Status InferBagOf(graph::InferenceContext* c) {
  RETURN_IF_ERROR(CountBags(*c, 0).status());
  RETURN_IF_ERROR(WantRank(*c, 1, 1));
  c->AddOutput(DType::kI64, c->shape(1));
  return absl::OkStatus();
}

absl::Status ComputeBagOf(graph::KernelContext* context) {
  ASSIGN_OR_RETURN(const int64_t bags, CountBags(*context, 0));
  RETURN_IF_ERROR(WantRank(*context, 1, 1));
  const absl::Span<const int32_t> offsets = context->input(0).values<int32_t>();
  const int64_t values = context->input(1).dim(0);
  RETURN_IF_ERROR(CheckOffsets(offsets, values));
  if (offsets.front() != 0 || offsets.back() != values) {
    return absl::InvalidArgumentError(absl::StrCat("input 0: wanted offsets from 0 to ", values,
                                                   ", found ", offsets.front(), " to ",
                                                   offsets.back()));
  }
  Tensor out(DType::kI64, Shape{values});
  int64_t* const result = out.mutable_data<int64_t>();
  for (int64_t i = 0; i < bags; ++i) {
    const auto at = static_cast<size_t>(i);
    std::fill(result + offsets[at], result + offsets[at + 1], i);
  }
  context->set_output(0, std::move(out));
  return absl::OkStatus();
}

absl::Status InferPickBags(graph::InferenceContext* c) {
  RETURN_IF_ERROR(CountBags(*c, 0).status());
  RETURN_IF_ERROR(WantRank(*c, 1, 1));
  RETURN_IF_ERROR(WantDType(*c, 1, {DType::kI64}));
  const int64_t picked = c->shape(1).dim(0);
  c->AddOutput(DType::kI64, Shape{kUnknownDim});
  c->AddOutput(DType::kI32, Shape{picked == kUnknownDim ? kUnknownDim : picked + 1});
  return absl::OkStatus();
}

absl::Status ComputePickBags(graph::KernelContext* context) {
  ASSIGN_OR_RETURN(const int64_t count, CountBags(*context, 0));
  RETURN_IF_ERROR(WantRank(*context, 1, 1));
  RETURN_IF_ERROR(WantDType(*context, 1, {DType::kI64}));
  const absl::Span<const int32_t> offsets = context->input(0).values<int32_t>();
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  RETURN_IF_ERROR(CheckOffsets(offsets, kMost));
  RETURN_IF_ERROR(CheckIndices(context->input(1), count, "bags"));
  const absl::Span<const int64_t> bags = context->input(1).values<int64_t>();
  Tensor picked(DType::kI32, Shape{static_cast<int64_t>(bags.size()) + 1});
  int32_t* const ends = picked.mutable_data<int32_t>();
  int64_t total = 0;
  *ends = 0;
  for (size_t i = 0; i < bags.size(); ++i) {
    const auto bag = static_cast<size_t>(bags[i]);
    total += offsets[bag + 1] - offsets[bag];
    if (total > kMost) {
      return absl::InvalidArgumentError("wanted fewer than 2^31 values in the bags picked");
    }
    ends[i + 1] = static_cast<int32_t>(total);
  }
  Tensor places(DType::kI64, Shape{total});
  int64_t* place = places.mutable_data<int64_t>();
  for (const int64_t bag : bags) {
    const auto at = static_cast<size_t>(bag);
    for (int64_t e = offsets[at]; e < offsets[at + 1]; ++e) *place++ = e;
  }
  context->set_output(0, std::move(places));
  context->set_output(1, std::move(picked));
  return absl::OkStatus();
}

}  // namespace

void RegisterBagOps(graph::OpRegistry* registry) {
  registry->Register({.name = "InBags",
                      .min_inputs = 3,
                      .max_inputs = 3,
                      .on_host = true,
                      .not_differentiable = true,
                      .infer = InferInBags});
  registry->RegisterKernel("InBags", graph::StatelessKernel(ComputeInBags));
  registry->Register({.name = "BagOf",
                      .min_inputs = 2,
                      .max_inputs = 2,
                      .on_host = true,
                      .not_differentiable = true,
                      .infer = InferBagOf});
  registry->RegisterKernel("BagOf", graph::StatelessKernel(ComputeBagOf));
  registry->Register({.name = "PickBags",
                      .min_inputs = 2,
                      .max_inputs = 2,
                      .on_host = true,
                      .not_differentiable = true,
                      .infer = InferPickBags});
  registry->RegisterKernel("PickBags", graph::StatelessKernel(ComputePickBags));
}

}  // namespace coxswain::kernels
