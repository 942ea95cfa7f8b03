// The rank of each row's true candidate, for ranking metrics over all candidates.
//
//   MaskedRank(scores f32 [B,N], true_ids i64 [B], exclude_values i64 [m],
//              exclude_offsets i32 [B+1]) -> i64 [B]
//     rank_i = number of candidates j with score_ij >= the score of row i's true candidate, leaving
//              out the true one and
//              exclude_values[exclude_offsets_i .. exclude_offsets_{i+1} - 1]
//
// Attribute `candidates` (default: N): only the first `candidates` columns are candidates. The
// columns behind them stand for no item: a true id there ranks last, at `candidates`, and excluding
// one changes nothing.
//
// 0 is the best rank. Equal scores count against the true candidate, so that a row that orders
// nothing (all of its scores are equal) ranks last. A candidate may be excluded more than once. A
// score that is NaN ranks above every other, and a true score that is NaN ranks last, so that a
// model that diverged does not look perfect.
//
// Errors: InvalidArgument unless all ids are in [0, N) and the offsets rise from 0 or more to m or
// less.

#include <algorithm>
#include <vector>

#include "kernels/cpu/index_check.h"
#include "kernels/cpu/row_math.h"
#include "kernels/op_util.h"
#include "kernels/register_list.h"
#include "runtime/base/status.h"
#include "runtime/graph/kernel.h"

namespace coxswain::kernels {
namespace {

// -1: all.
absl::StatusOr<int64_t> ReadCandidates(const Attrs& attrs) {
  ASSIGN_OR_RETURN(const int64_t candidates, OptionalAttr<int64_t>(attrs, "candidates", -1));
  if (candidates >= -1) return candidates;
  return absl::InvalidArgumentError(
      absl::StrCat("attribute 'candidates': wanted 0 or more, found ", candidates));
}

// Returns the number of rows.
template <typename Context>
absl::StatusOr<int64_t> CheckTypes(const Context& c) {
  RETURN_IF_ERROR(WantRank(c, 0, 2));
  RETURN_IF_ERROR(WantDType(c, 0, {DType::kF32}));
  for (int i : {1, 2, 3}) {
    RETURN_IF_ERROR(WantRank(c, i, 1));
    RETURN_IF_ERROR(WantDType(c, i, {i == 3 ? DType::kI32 : DType::kI64}));
  }
  ASSIGN_OR_RETURN(const int64_t rows,
                   MergeDims(ShapeOfInput(c, 0).dim(0), ShapeOfInput(c, 1).dim(0), "rows"));
  const int64_t offsets = ShapeOfInput(c, 3).dim(0);
  if (offsets == 0) {
    return absl::InvalidArgumentError("input 3: wanted one offset more than rows, found none");
  }
  return MergeDims(rows, offsets == kUnknownDim ? kUnknownDim : offsets - 1, "rows");
}

absl::Status InferMaskedRank(graph::InferenceContext* c) {
  RETURN_IF_ERROR(ReadCandidates(c->attrs()).status());
  ASSIGN_OR_RETURN(const int64_t rows, CheckTypes(*c));
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

absl::Status CheckInputs(const graph::KernelContext& context) {
  RETURN_IF_ERROR(CheckTypes(context).status());
  const int64_t candidates = context.input(0).dim(1);
  RETURN_IF_ERROR(CheckIds(context.input(1).values<int64_t>(), candidates, "true"));
  RETURN_IF_ERROR(CheckIds(context.input(2).values<int64_t>(), candidates, "excluded"));
  return CheckOffsets(context.input(3).values<int32_t>(), context.input(2).dim(0));
}

absl::Status ComputeMaskedRank(const int64_t& candidates, graph::KernelContext* context) {
  RETURN_IF_ERROR(CheckInputs(*context));
  const int64_t rows = context->input(0).dim(0), stride = context->input(0).dim(1);
  const int64_t width = candidates < 0 ? stride : std::min(candidates, stride);
  const float* scores = context->input(0).data<float>();
  const int64_t* truth = context->input(1).data<int64_t>();
  const int64_t* excluded = context->input(2).data<int64_t>();
  const int32_t* offsets = context->input(3).data<int32_t>();
  Tensor ranks(DType::kI64, Shape{rows});
  int64_t* out = ranks.mutable_data<int64_t>();
  context->pool()->ParallelFor(rows, RowGrain(width), [&](int64_t begin, int64_t end) {
    // seen[j]: 1 + the last row of this range that candidate j was taken out of.
    std::vector<int64_t> seen(width, 0);
    RunSimd([&]() COX_SIMD_BODY {
      for (int64_t i = begin; i < end; ++i) {
        if (truth[i] >= width) {
          out[i] = width;
          continue;
        }
        const float* row = scores + i * stride;
        const float score = row[truth[i]];
        // Counts all that are not below, then takes out those that do not count.
        int64_t above = RowCountNotBelow(row, score, width);
        auto take_out = [&](int64_t j) {
          if (j >= width || seen[j] == i + 1) return;
          seen[j] = i + 1;
          above -= row[j] < score ? 0 : 1;
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

void RegisterMaskedRank(graph::OpRegistry* registry) {
  registry->Register({.name = "MaskedRank",
                      .min_inputs = 4,
                      .max_inputs = 4,
                      .not_differentiable = true,
                      .infer = InferMaskedRank,
                      .attrs = {"candidates"}});
  registry->RegisterKernel("MaskedRank", AttrKernel<int64_t>(ReadCandidates, ComputeMaskedRank));
}

}  // namespace coxswain::kernels
