// The rank of each row's true candidate, for ranking metrics over all candidates.
//
//   MaskedRank(scores f32 [B,N], true_ids i64 [B], exclude_values i64 [m], exclude_offsets i32
//   [B+1])
//       -> i64 [B]
//     rank_i = number of candidates j with score_ij > score of the true one, without the true one
//     and
//              without those in exclude_values[exclude_offsets_i .. exclude_offsets_{i+1} - 1]
//
// 0 is best. A candidate may be excluded more than once. A score that is NaN ranks above every
// other, and a true score that is NaN ranks last, so that a model that diverged does not look
// perfect. Errors: InvalidArgument unless all ids are in [0, N) and the offsets rise from 0 or more
// to m or less.

#include <vector>

#include "kernels/cpu/row_math.h"
#include "kernels/register_list.h"
#include "kernels/validate.h"
#include "runtime/base/status.h"
#include "runtime/graph/kernel.h"

namespace coxswain {
namespace {

absl::Status InferMaskedRank(InferenceContext* c) {
  RETURN_IF_ERROR(c->WantRank(0, 2));
  RETURN_IF_ERROR(c->WantDType(0, {DType::kF32}));
  for (int i : {1, 2, 3}) {
    RETURN_IF_ERROR(c->WantRank(i, 1));
    RETURN_IF_ERROR(c->WantDType(i, {i == 3 ? DType::kI32 : DType::kI64}));
  }
  ASSIGN_OR_RETURN(int64_t rows, MergeDims(c->shape(0).dim(0), c->shape(1).dim(0), "rows"));
  const int64_t offsets = c->shape(3).dim(0);
  if (offsets == 0) return c->Error("input 3: wanted one offset more than rows, found none");
  ASSIGN_OR_RETURN(rows,
                   MergeDims(rows, offsets == kUnknownDim ? kUnknownDim : offsets - 1, "rows"));
  c->AddOutput(DType::kI64, Shape{rows});
  return absl::OkStatus();
}

absl::Status CheckIds(absl::Span<const int64_t> ids, int64_t candidates, const char* what) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= candidates) {
      return absl::InvalidArgumentError(absl::StrCat(what, " id ", ids[i], " at position ", i,
                                                     ": wanted 0 <= id < ", candidates,
                                                     " candidates"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckInputs(const KernelContext& context) {
  RETURN_IF_ERROR(WantInput(context, 0, DType::kF32, 2));
  RETURN_IF_ERROR(WantInput(context, 1, DType::kI64, 1));
  RETURN_IF_ERROR(WantInput(context, 2, DType::kI64, 1));
  RETURN_IF_ERROR(WantInput(context, 3, DType::kI32, 1));
  const int64_t rows = context.input(0).dim(0), candidates = context.input(0).dim(1);
  RETURN_IF_ERROR(WantInputShape(context, 1, Shape{rows}));
  RETURN_IF_ERROR(WantInputShape(context, 3, Shape{rows + 1}));
  RETURN_IF_ERROR(CheckIds(context.input(1).values<int64_t>(), candidates, "true"));
  RETURN_IF_ERROR(CheckIds(context.input(2).values<int64_t>(), candidates, "excluded"));
  const int32_t* offsets = context.input(3).data<int32_t>();
  int32_t before = 0;
  for (int64_t i = 0; i <= rows; ++i) {
    if (offsets[i] < before || offsets[i] > context.input(2).dim(0)) {
      return absl::InvalidArgumentError(absl::StrCat("offset ", i, ": wanted ", before,
                                                     " <= offset <= ", context.input(2).dim(0),
                                                     ", found ", offsets[i]));
    }
    before = offsets[i];
  }
  return absl::OkStatus();
}

absl::Status ComputeMaskedRank(KernelContext* context) {
  RETURN_IF_ERROR(CheckInputs(*context));
  const int64_t rows = context->input(0).dim(0), width = context->input(0).dim(1);
  const float* scores = context->input(0).data<float>();
  const int64_t* truth = context->input(1).data<int64_t>();
  const int64_t* excluded = context->input(2).data<int64_t>();
  const int32_t* offsets = context->input(3).data<int32_t>();
  Tensor ranks(DType::kI64, Shape{rows});
  int64_t* out = ranks.mutable_data<int64_t>();
  context->pool()->ParallelFor(rows, RowGrain(width), [&](int64_t begin, int64_t end) {
    // seen[j]: 1 + the last row of this range that has taken candidate j out already.
    std::vector<int64_t> seen(width, 0);
    RunSimd([&]() COX_SIMD_BODY {
      for (int64_t i = begin; i < end; ++i) {
        const float* row = scores + i * width;
        const float score = row[truth[i]];
        // All that are above, then less those that do not count. Only a NaN is above itself.
        int64_t above = RowCountAbove(row, score, width);
        auto take_out = [&](int64_t j) {
          if (seen[j] == i + 1) return;
          seen[j] = i + 1;
          above -= row[j] <= score ? 0 : 1;
        };
        take_out(truth[i]);
        for (int32_t e = offsets[i]; e < offsets[i + 1]; ++e) take_out(excluded[e]);
        out[i] = above;
      }
    });
  });
  context->set_output(0, std::move(ranks));
  return absl::OkStatus();
}

}  // namespace

void RegisterMaskedRank(OpRegistry* registry) {
  registry->Register({.name = "MaskedRank",
                      .min_inputs = 4,
                      .max_inputs = 4,
                      .not_differentiable = true,
                      .infer = InferMaskedRank});
  registry->RegisterKernel("MaskedRank", DeviceType::kCpu, StatelessKernel(ComputeMaskedRank));
}

}  // namespace coxswain
