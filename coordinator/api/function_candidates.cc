// Retrieval: candidates that are rows of a table are scored by the parameter servers that hold
// them.
#include "absl/strings/str_cat.h"
#include "coordinator/api/function_state.h"
#include "coordinator/api/variable_info.h"
#include "coxswain/function_builder.h"

namespace coxswain {
namespace {

constexpr float kTiny = 1e-12f;  // as kernels/shard_candidates.cc

// No excluded ids: offsets of as many examples as `like`, f32 or i64 [n], has.
void ExcludeNone(FunctionBuilder* f, Output like, CandidateOptions* options) {
  if (options->exclude_values.valid()) return;
  const Output zero = f->Constant(Tensor::FromVector<int32_t>({0}));
  const Output zeros = f->Op("ZerosLike", {f->Cast(like, DType::kI32)});
  options->exclude_values = f->Constant(Tensor(DType::kI64, Shape{0}));
  options->exclude_offsets = f->Concat({zero, zeros}, 0);
}

// Of rows [n, dim]: x_i . row_i, and of normalised rows.
Output OwnScores(FunctionBuilder* f, Output x, Output rows, bool normalize) {
  const Output score = f->RowDot(x, rows);
  if (!normalize) return score;
  const Output squares = f->Add(f->RowDot(rows, rows), f->Scalar(kTiny));
  return f->Mul(score, f->Op("Rsqrt", {squares}));
}

bool SameShards(const VariableInfo& a, const VariableInfo& b) {
  return a.strategy == b.strategy && a.shards.size() == b.shards.size();
}

}  // namespace

Attrs CandidateAttrs(const VariableInfo& info, int shard, const CandidateOptions& options) {
  const proto::ShardSpec& spec = info.shards[static_cast<size_t>(shard)];
  Attrs attrs = ReadAttrs(info, shard);
  attrs["strategy"] = info.strategy;
  attrs["index"] = static_cast<int64_t>(shard);
  attrs["count"] = static_cast<int64_t>(info.shards.size());
  attrs["rows"] = info.rows();
  attrs["row_begin"] = spec.row_begin();
  attrs["candidates"] = options.count < 0 ? info.rows() : options.count;
  attrs["normalize"] = options.normalize;
  return attrs;
}

FunctionBuilder::TopCandidates MergeTop(FunctionBuilder* f, const std::vector<Output>& scores,
                                        const std::vector<Output>& ids, int64_t k) {
  if (scores.size() == 1) return {scores[0], ids[0]};
  const std::vector<Output> top = f->graph().OpN("TopK", {f->Concat(scores, 1)}, {{"k", k}}, 2);
  // Numbers below 2^53 are whole in f64, and so are rows of tables.
  const Output all = f->Cast(f->Concat(ids, 1), DType::kF64);
  return {top[0], f->Cast(f->Op("TakeAlongLast", {all, top[1]}), DType::kI64)};
}

bool FunctionBuilder::State::CheckCandidates(const EmbeddingTable& table,
                                             const CandidateOptions& options) {
  const VariableInfo& info = table.info();
  if (!Owns(info)) return false;
  absl::Status status;
  if (info.hash()) {
    status = absl::InvalidArgumentError(absl::StrCat(
        "candidates: table '", info.name, "' is a hash table, which has no row numbers"));
  } else if (info.shape.rank() != 2) {
    status = absl::InvalidArgumentError(absl::StrCat("candidates: wanted a matrix, found '",
                                                     info.name, "' ", info.shape.ToString()));
  } else if (options.count < -1 || options.count > info.rows()) {
    status = absl::InvalidArgumentError(absl::StrCat("candidates: wanted a count of -1 to ",
                                                     info.rows(), ", found ", options.count));
  } else if (options.exclude_values.valid() != options.exclude_offsets.valid()) {
    status = absl::InvalidArgumentError(
        "candidates: wanted both of exclude_values and exclude_offsets, or none");
  } else if (options.bias != nullptr) {
    const VariableInfo& bias = options.bias->info();
    if (!Owns(bias)) return false;
    if (bias.hash() || bias.shape != Shape{info.rows(), 1}) {
      status = absl::InvalidArgumentError(
          absl::StrCat("candidates: wanted a bias of one number for each of ", info.rows(),
                       " rows, found '", bias.name, "' ", bias.shape.ToString()));
    }
  }
  if (!status.ok()) graph.Fail(std::move(status));
  return !graph.failed();
}

// [rows of the shard, 1].
Output FunctionBuilder::State::CandidateBias(FunctionBuilder* f, const VariableInfo& info,
                                             int shard, const CandidateOptions& options) {
  const VariableInfo& bias = options.bias->info();
  if (SameShards(info, bias)) return f->Op("ReadVariable", {}, ReadAttrs(bias, shard));
  std::vector<int64_t> rows(static_cast<size_t>(info.shards[static_cast<size_t>(shard)].rows()));
  for (size_t r = 0; r < rows.size(); ++r) {
    rows[r] = info.GlobalRow(shard, static_cast<int64_t>(r));
  }
  return f->Gather(f->Read(*options.bias), f->Constant(Tensor::FromVector<int64_t>(rows)));
}

FunctionBuilder::TopCandidates FunctionBuilder::FactorizedTopK(Output x,
                                                               const EmbeddingTable& table,
                                                               int64_t k,
                                                               const CandidateOptions& given) {
  if (!state_->CheckCandidates(table, given)) return {};
  if (k < 1) {
    Fail(absl::InvalidArgumentError(absl::StrCat("FactorizedTopK: wanted k >= 1, found ", k)));
    return {};
  }
  CandidateOptions options = given;
  ExcludeNone(this, Sum(x, {1}), &options);
  const VariableInfo& info = table.info();
  std::vector<Output> scores, ids;
  for (int s = 0; s < static_cast<int>(info.shards.size()); ++s) {
    Attrs attrs = CandidateAttrs(info, s, options);
    attrs["k"] = k;
    std::vector<Output> inputs = {x, options.exclude_values, options.exclude_offsets};
    if (options.bias != nullptr) {
      inputs.push_back(state_->CandidateBias(this, info, s, options));
    }
    const std::vector<Output> best = graph().OpN("TopKShard", inputs, std::move(attrs), 2);
    scores.push_back(best[0]);
    ids.push_back(best[1]);
  }
  return MergeTop(this, scores, ids, k);
}

Output FunctionBuilder::FactorizedRank(Output x, const EmbeddingTable& table, Output ids,
                                       const CandidateOptions& given) {
  if (!state_->CheckCandidates(table, given)) return {};
  CandidateOptions options = given;
  ExcludeNone(this, ids, &options);
  const VariableInfo& info = table.info();
  // As exact as what the parameter servers compare it with.
  std::vector<Output> place;
  const Output rows = state_->GatherUnique(this, table, {ids}, &place, /*exact=*/true);
  Output score = OwnScores(this, x, Gather(rows, place[0]), options.normalize);
  if (options.bias != nullptr) {
    const Output bias = state_->GatherUnique(this, *options.bias, {ids}, &place, /*exact=*/true);
    score = Add(score, Reshape(Gather(bias, place[0]), {-1}));
  }
  Output rank;
  for (int s = 0; s < static_cast<int>(info.shards.size()); ++s) {
    std::vector<Output> inputs = {x, ids, score, options.exclude_values, options.exclude_offsets};
    if (options.bias != nullptr) {
      inputs.push_back(state_->CandidateBias(this, info, s, options));
    }
    const Output above = Op("RankShard", inputs, CandidateAttrs(info, s, options));
    rank = s == 0 ? above : Add(rank, above);
  }
  return rank;
}

}  // namespace coxswain
