// What a model that scores candidates by products with the rows of a table says of all of them,
// found where the rows lie: the table does not travel, and no process holds all scores. Both ops
// run on the PS of the shard W [r,d], whose rows are the candidates.
//
//   score_ij = x_i . w_j  (normalize: x_i . w_j / |w_j|)  + bias_j
//
//   RankShard(x f32 [n,d], own i64 [n], score f32 [n], exclude_values i64 [m],
//             exclude_offsets i32 [n+1], [bias f32 [r,1]]; ...) -> i64 [n]
//     number of the shard's candidates j with score_ij >= score_i, without the id own_i and those
//     of exclude_values[exclude_offsets_i .. exclude_offsets_{i+1} - 1]. The sum over all shards is
//     the rank of own_i, as of MaskedRank: a NaN ranks above every number, and a score that is NaN
//     behind all.
//
//   TopKShard(x, exclude_values, exclude_offsets, [bias]; ..., k) -> f32 [n,k], i64 [n,k]
//     the k highest of these scores, best first, and their ids; of equal scores the lower id first.
//     Where the shard has fewer: -infinity, and -1 for the id. With the attribute `directions` rows
//     are normalised, and those that have no direction (zeros, or not finite) are no candidates.
//
// All ids are the variable's, 0 <= id < rows; those of other shards change nothing. Attributes:
// shard, variable, dtype, shape as the other ops on shards; strategy, index, count, rows and
// row_begin as UniqueShards and CheckGradient; candidates: only ids below it are candidates, and an
// `own` that is none ranks behind all (default: all); normalize.
//
// Rows are gathered in blocks, so memory is bounded whatever the shard's size. Errors:
// InvalidArgument for ids out of range and offsets that do not rise.

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "kernels/compute.h"
#include "kernels/cpu/index_check.h"
#include "kernels/cpu/onednn_matmul.h"
#include "kernels/cpu/row_math.h"
#include "kernels/cpu/shard_ids.h"
#include "kernels/cpu/top_entries.h"
#include "kernels/op_util.h"
#include "kernels/register_list.h"
#include "kernels/shard_target.h"

namespace coxswain::kernels {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr float kTiny = 1e-12f;  // below this a row's square counts as this
constexpr int64_t kBlockScores = int64_t{1} << 20;
constexpr int64_t kMostBlockRows = 4096;

struct CandidateAttrs {
  ShardTarget target;
  TensorType type;  // of the shard
  ShardIds ids;
  int64_t candidates = 0;
  bool normalize = false;
  bool directions = false;           // of TopKShard
  int64_t k = 0;                     // the same
  bool same_on_any_threads = false;  // see compute.h
};

absl::StatusOr<CandidateAttrs> ParseCandidates(const Attrs& attrs, bool top) {
  CandidateAttrs a;
  ASSIGN_OR_RETURN(a.target, ParseShardTarget(attrs));
  ASSIGN_OR_RETURN(a.type, ParseShardType(attrs));
  if (a.type.shape.rank() != 2 || a.type.dtype != DType::kF32) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted rows of f32, found ", a.type.ToString()));
  }
  ASSIGN_OR_RETURN(a.ids, ParseShardIds(attrs));
  a.same_on_any_threads = graph::AttrOr<bool>(attrs, kSameOnAnyThreadsAttr, false);
  if (a.ids.rows < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute 'rows': wanted 0 or more, found ", a.ids.rows,
                     ": the rows of a hash table are not candidates"));
  }
  ASSIGN_OR_RETURN(a.candidates, OptionalAttr<int64_t>(attrs, "candidates", a.ids.rows));
  if (a.candidates < 0 || a.candidates > a.ids.rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute 'candidates': wanted 0 to ", a.ids.rows, ", found ", a.candidates));
  }
  ASSIGN_OR_RETURN(a.normalize, OptionalAttr<bool>(attrs, "normalize", false));
  if (!top) return a;
  ASSIGN_OR_RETURN(a.directions, OptionalAttr<bool>(attrs, "directions", false));
  ASSIGN_OR_RETURN(a.k, graph::GetAttr<int64_t>(attrs, "k"));
  if (a.k >= 1) return a;
  return absl::InvalidArgumentError(absl::StrCat("attribute 'k': wanted 1 or more, found ", a.k));
}

// Inputs: x, then `own` and `score` of RankShard, then exclude_values, exclude_offsets and bias.
struct Places {
  int exclude, offsets, bias;
};
constexpr Places kOfRank{3, 4, 5}, kOfTop{1, 2, 3};

// Returns the number of examples.
template <typename Context>
absl::StatusOr<int64_t> CheckInputs(const Context& c, const CandidateAttrs& a, bool top) {
  const Places at = top ? kOfTop : kOfRank;
  RETURN_IF_ERROR(WantRank(c, 0, 2));
  RETURN_IF_ERROR(WantDType(c, 0, {DType::kF32}));
  RETURN_IF_ERROR(
      MergeDims(ShapeOfInput(c, 0).dim(1), a.type.shape.dim(1), "columns of x and rows").status());
  int64_t examples = ShapeOfInput(c, 0).dim(0);
  for (int i = 1; i <= at.offsets; ++i) {
    RETURN_IF_ERROR(WantRank(c, i, 1));
    const bool score = !top && i == 2;
    RETURN_IF_ERROR(WantDType(c, i,
                              {score             ? DType::kF32
                               : i == at.offsets ? DType::kI32
                                                 : DType::kI64}));
    if (i >= at.exclude) continue;
    ASSIGN_OR_RETURN(examples, MergeDims(examples, ShapeOfInput(c, i).dim(0), "examples"));
  }
  const int64_t offsets = ShapeOfInput(c, at.offsets).dim(0);
  if (offsets == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("input ", at.offsets, ": wanted one offset more than examples, found none"));
  }
  ASSIGN_OR_RETURN(examples, MergeDims(examples, offsets == kUnknownDim ? offsets : offsets - 1,
                                       "examples and offsets"));
  if (c.num_inputs() > at.bias) {
    RETURN_IF_ERROR(WantRank(c, at.bias, 2));
    RETURN_IF_ERROR(WantDType(c, at.bias, {DType::kF32}));
    const Shape& bias = ShapeOfInput(c, at.bias);
    RETURN_IF_ERROR(MergeDims(bias.dim(0), a.type.shape.dim(0), "biases and rows").status());
    RETURN_IF_ERROR(MergeDims(bias.dim(1), 1, "columns of biases").status());
  }
  return examples;
}

template <bool top>
absl::Status InferCandidates(graph::InferenceContext* c) {
  ASSIGN_OR_RETURN(const CandidateAttrs a, ParseCandidates(c->attrs(), top));
  ASSIGN_OR_RETURN(const int64_t examples, CheckInputs(*c, a, top));
  if (top) c->AddOutput(DType::kF32, Shape{examples, a.k});
  c->AddOutput(DType::kI64, top ? Shape{examples, a.k} : Shape{examples});
  return absl::OkStatus();
}

// The local rows that are left out of each example's candidates, and how far blocks have gone
// through them.
class LeftOut {
 public:
  // `own`: null, or one id for each example.
  LeftOut(const CandidateAttrs& a, int64_t rows, int64_t examples, const int64_t* own,
          const int64_t* values, const int32_t* offsets) {
    const auto n = static_cast<size_t>(examples);
    begin_.reserve(n + 1);
    begin_.push_back(0);
    local_.reserve(static_cast<size_t>(offsets[n] - offsets[0]) + (own == nullptr ? 0 : n));
    for (size_t i = 0; i < n; ++i) {
      const auto add = [&](int64_t id) {
        if (id >= a.candidates) return;
        if (const int64_t local = a.ids.Local(id, rows); local >= 0) local_.push_back(local);
      };
      const auto first = static_cast<std::ptrdiff_t>(local_.size());
      if (own != nullptr) add(own[i]);
      for (int32_t e = offsets[i]; e < offsets[i + 1]; ++e) add(values[e]);
      std::sort(local_.begin() + first, local_.end());
      local_.erase(std::unique(local_.begin() + first, local_.end()), local_.end());
      begin_.push_back(local_.size());
    }
    next_.assign(begin_.begin(), begin_.end() - 1);
    for (int64_t id = a.candidates; id < a.ids.rows; ++id) {
      if (const int64_t local = a.ids.Local(id, rows); local >= 0) no_candidates_.push_back(local);
    }
    std::sort(no_candidates_.begin(), no_candidates_.end());
  }

  // Calls f(column) for what example i has within the block's rows. Blocks come in their order.
  template <typename F>
  void InBlock(int64_t i, int64_t begin, int64_t end, F f) {
    const auto example = static_cast<size_t>(i);
    size_t& at = next_[example];
    for (; at < begin_[example + 1] && local_[at] < end; ++at) f(local_[at] - begin);
    auto none = std::lower_bound(no_candidates_.begin(), no_candidates_.end(), begin);
    for (; none != no_candidates_.end() && *none < end; ++none) f(*none - begin);
  }
  int64_t candidates(int64_t rows) const {
    return rows - static_cast<int64_t>(no_candidates_.size());
  }

 private:
  std::vector<int64_t> local_;  // by example, ascending
  std::vector<size_t> begin_;   // of each example in local_
  std::vector<size_t> next_;    // of each example: the first that no block has had
  std::vector<int64_t> no_candidates_;
};

// 1 / |w_j|; 0 where that is no number above 0.
float InverseNorm(const float* row, int64_t n) {
  double square = 0;
  for (int64_t i = 0; i < n; ++i) square += double{row[i]} * row[i];
  const double inverse = 1 / std::sqrt(square);
  return std::isfinite(square) && std::isfinite(inverse) ? static_cast<float>(inverse) : 0;
}

// By what the scores of each row are multiplied.
std::vector<float> ScalesOf(const CandidateAttrs& a, const float* rows, int64_t width) {
  const int64_t dim = a.type.shape.dim(1);
  std::vector<float> scale(static_cast<size_t>(width), 1.0f);
  if (a.directions) {
    for (int64_t j = 0; j < width; ++j) {
      scale[static_cast<size_t>(j)] = InverseNorm(rows + j * dim, dim);
    }
    return scale;
  }
  RunSimd([&]() COX_SIMD_BODY {
    for (int64_t j = 0; a.normalize && j < width; ++j) {
      const float* row = rows + j * dim;
      scale[static_cast<size_t>(j)] = 1 / std::sqrt(RowProduct(row, row, dim) + kTiny);
    }
  });
  return scale;
}

// Scores of a block: multiplies by 1 / |w_j| and adds biases.
void Finish(const CandidateAttrs& a, const float* rows, const float* bias, int64_t examples,
            int64_t width, float* scores, env::ComputePool* pool) {
  if (!a.normalize && !a.directions && bias == nullptr) return;
  const std::vector<float> scale = ScalesOf(a, rows, width);
  std::vector<int64_t> none;  // rows without a direction
  for (int64_t j = 0; a.directions && j < width; ++j) {
    if (scale[static_cast<size_t>(j)] == 0) none.push_back(j);
  }
  pool->ParallelFor(examples, RowGrain(width), [&](int64_t begin, int64_t end) {
    const float* by = scale.data();
    RunSimd([&]() COX_SIMD_BODY {
      for (int64_t i = begin; i < end; ++i) {
        float* row = scores + i * width;
        COX_SIMD_LOOP
        for (int64_t j = 0; j < width; ++j) row[j] *= by[j];
        if (bias != nullptr) RowAddScaled(bias, 1.0f, row, width);
        for (const int64_t j : none) row[j] = kNone;
      }
    });
  });
}

struct Block {
  int64_t begin = 0, width = 0;   // local rows
  const float* scores = nullptr;  // of all examples, one row after the other
};

// The scores of all examples with all rows of the shard, a block at a time.
absl::Status ForEachBlock(const CandidateAttrs& a, graph::KernelContext* context, int64_t rows,
                          const Tensor* bias, absl::FunctionRef<void(const Block&)> look) {
  ASSIGN_OR_RETURN(graph::VariableAccess * shards, ShardsOf(*context));
  const Tensor& x = context->input(0);
  const int64_t examples = x.dim(0), dim = x.dim(1);
  const int64_t most =
      std::clamp(kBlockScores / std::max<int64_t>(1, examples), int64_t{64}, kMostBlockRows);
  Tensor scores(DType::kF32, Shape{examples, std::min(most, rows)});
  for (int64_t begin = 0; begin < rows; begin += most) {
    const int64_t width = std::min(most, rows - begin);
    Tensor ids(DType::kI64, Shape{width});
    std::iota(ids.mutable_data<int64_t>(), ids.mutable_data<int64_t>() + width, begin);
    const absl::StatusOr<Tensor> block = GatherTarget(shards, a.target, ids);
    if (!block.ok()) return Named(block.status(), a.target);
    if (block->dtype() != DType::kF32 || block->shape() != Shape{width, dim}) {
      return Named(absl::InvalidArgumentError(
                       absl::StrCat("wanted rows of ", dim, " f32, found ",
                                    TensorType{block->dtype(), block->shape()}.ToString())),
                   a.target);
    }
    MatMulProblem p;
    p.m = examples;
    p.k = dim;
    p.n = width;
    p.transpose_b = true;
    p.same_on_any_threads = a.same_on_any_threads;
    float* out = scores.mutable_data<float>();
    RETURN_IF_ERROR(
        MatMulF32(p, x.data<float>(), block->data<float>(), nullptr, out, context->pool()));
    Finish(a, block->data<float>(), bias == nullptr ? nullptr : bias->data<float>() + begin,
           examples, width, out, context->pool());
    look({begin, width, out});
  }
  return absl::OkStatus();
}

absl::Status CheckIds(const Tensor& ids, int64_t rows, const char* what) {
  return Annotate(CheckIndices(ids, rows, "rows"), what);
}

// What both kernels do before they look at blocks.
absl::Status CheckRun(const CandidateAttrs& a, const graph::KernelContext& context, bool top) {
  const Places at = top ? kOfTop : kOfRank;
  RETURN_IF_ERROR(CheckInputs(context, a, top).status());
  if (!top) RETURN_IF_ERROR(CheckIds(context.input(1), a.ids.rows, "own"));
  RETURN_IF_ERROR(CheckIds(context.input(at.exclude), a.ids.rows, "excluded"));
  return CheckOffsets(context.input(at.offsets).values<int32_t>(),
                      context.input(at.exclude).dim(0));
}

// The shard's rows are known when it is made: tables with a vocabulary do not grow.
absl::Status RankShard(const CandidateAttrs& a, graph::KernelContext* context) {
  RETURN_IF_ERROR(CheckRun(a, *context, /*top=*/false));
  const int64_t examples = context->input(0).dim(0), rows = a.type.shape.dim(0);
  const int64_t* own = context->input(1).data<int64_t>();
  const float* score = context->input(2).data<float>();
  LeftOut left_out(a, rows, examples, own, context->input(3).data<int64_t>(),
                   context->input(4).data<int32_t>());
  Tensor ranks = Tensor::Zeros(DType::kI64, Shape{examples});
  int64_t* above = ranks.mutable_data<int64_t>();
  const Tensor* bias =
      context->num_inputs() > kOfRank.bias ? &context->input(kOfRank.bias) : nullptr;
  RETURN_IF_ERROR(ForEachBlock(a, context, rows, bias, [&](const Block& block) {
    const int64_t width = block.width;
    context->pool()->ParallelFor(examples, RowGrain(width), [&](int64_t begin, int64_t end) {
      RunSimd([&]() COX_SIMD_BODY {
        for (int64_t i = begin; i < end; ++i) {
          const float* row = block.scores + i * width;
          above[i] += RowCountNotBelow(row, score[i], width);
          left_out.InBlock(i, block.begin, block.begin + width,
                           [&](int64_t j) { above[i] -= row[j] < score[i] ? 0 : 1; });
        }
      });
    });
  }));
  for (int64_t i = 0; i < examples; ++i) {
    if (own[i] >= a.candidates) above[i] = left_out.candidates(rows);
  }
  context->set_output(0, std::move(ranks));
  return absl::OkStatus();
}

absl::Status TopKShard(const CandidateAttrs& a, graph::KernelContext* context) {
  RETURN_IF_ERROR(CheckRun(a, *context, /*top=*/true));
  const int64_t examples = context->input(0).dim(0), rows = a.type.shape.dim(0);
  LeftOut left_out(a, rows, examples, nullptr, context->input(1).data<int64_t>(),
                   context->input(2).data<int32_t>());
  std::vector<TopEntries<float>> best(static_cast<size_t>(examples), TopEntries<float>(a.k));
  const Tensor* bias = context->num_inputs() > kOfTop.bias ? &context->input(kOfTop.bias) : nullptr;
  RETURN_IF_ERROR(ForEachBlock(a, context, rows, bias, [&](const Block& block) {
    context->pool()->ParallelFor(examples, RowGrain(block.width), [&](int64_t begin, int64_t end) {
      std::vector<char> out(static_cast<size_t>(block.width));
      for (int64_t i = begin; i < end; ++i) {
        std::fill(out.begin(), out.end(), 0);
        left_out.InBlock(i, block.begin, block.begin + block.width,
                         [&](int64_t j) { out[static_cast<size_t>(j)] = 1; });
        const float* row = block.scores + i * block.width;
        for (int64_t j = 0; j < block.width; ++j) {
          if (out[static_cast<size_t>(j)] != 0 || row[j] == kNone) continue;
          best[static_cast<size_t>(i)].Add(row[j], a.ids.Global(block.begin + j));
        }
      }
    });
  }));
  Tensor scores(DType::kF32, Shape{examples, a.k}), ids(DType::kI64, Shape{examples, a.k});
  std::fill_n(scores.mutable_data<float>(), scores.num_elements(), kNone);
  std::fill_n(ids.mutable_data<int64_t>(), ids.num_elements(), int64_t{-1});
  for (int64_t i = 0; i < examples; ++i) {
    int64_t at = i * a.k;
    for (const TopEntry<float>& entry : best[static_cast<size_t>(i)].Sorted()) {
      scores.mutable_data<float>()[at] = entry.value;
      ids.mutable_data<int64_t>()[at++] = entry.index;
    }
  }
  context->set_output(0, std::move(scores));
  context->set_output(1, std::move(ids));
  return absl::OkStatus();
}

}  // namespace

void RegisterShardCandidates(graph::OpRegistry* registry) {
  registry->Register(
      {.name = "RankShard",
       .min_inputs = 5,
       .max_inputs = 6,
       .stateful = true,
       .on_parameter_server = true,
       .not_differentiable = true,
       .infer = InferCandidates<false>,
       .attrs = {"shard", "variable", "dtype", "shape", "strategy", "index", "count", "rows",
                 "row_begin", "candidates", "normalize", kAveragesAttr, kSameOnAnyThreadsAttr}});
  registry->RegisterKernel(
      "RankShard",
      AttrKernel<CandidateAttrs>(
          [](const Attrs& attrs) { return ParseCandidates(attrs, /*top=*/false); }, RankShard));
  registry->Register({.name = "TopKShard",
                      .min_inputs = 3,
                      .max_inputs = 4,
                      .stateful = true,
                      .on_parameter_server = true,
                      .not_differentiable = true,
                      .infer = InferCandidates<true>,
                      .attrs = {"shard", "variable", "dtype", "shape", "strategy", "index", "count",
                                "rows", "row_begin", "candidates", "normalize", "directions", "k",
                                kAveragesAttr, kSameOnAnyThreadsAttr}});
  registry->RegisterKernel(
      "TopKShard",
      AttrKernel<CandidateAttrs>(
          [](const Attrs& attrs) { return ParseCandidates(attrs, /*top=*/true); }, TopKShard));
}

}  // namespace coxswain::kernels
