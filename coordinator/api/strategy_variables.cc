// Variables and tables: cut into new shards, or taken from a checkpoint's layout.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "coordinator/api/catalog.h"
#include "coordinator/api/check_consistency.h"
#include "coordinator/api/strategy_state.h"
#include "coordinator/api/table_words.h"
#include "coordinator/api/wait.h"
#include "coordinator/api/wait_reporter.h"
#include "coordinator/core/controller.h"
#include "kernels/optimizers/optimizer_spec.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/graph/serialize.h"

namespace coxswain {

absl::Status ParameterServerStrategy::State::MakeShards(VariableInfo* info,
                                                        const proto::VariableSpec& spec,
                                                        int64_t shards) {
  const int64_t rows = info->rows();
  // A lookup has an output for each shard.
  constexpr int64_t kMostShards = int64_t{1} << 16;
  const int64_t most = info->hash() ? kMostShards : std::min(rows, kMostShards);
  if (shards < 1 || shards > std::max<int64_t>(1, most)) {
    return absl::InvalidArgumentError(absl::StrCat("variable '", info->name,
                                                   "': a partitioner wants ", shards, " shards of ",
                                                   rows, " rows; wanted at most ", most));
  }
  int64_t row_begin = 0;
  for (int64_t s = 0; s < shards; ++s) {
    proto::ShardSpec shard;
    *shard.mutable_variable() = spec;
    shard.set_index(static_cast<int>(s));
    shard.set_count(static_cast<int>(shards));
    shard.set_strategy(info->strategy);
    if (!info->hash()) shard.set_rows(rows / shards + (s < rows % shards ? 1 : 0));
    if (info->strategy == "div") shard.set_row_begin(row_begin);
    row_begin += shard.rows();
    info->shards.push_back(std::move(shard));
  }
  cluster.catalog()->Place(&info->shards);
  return absl::OkStatus();
}

absl::Status ParameterServerStrategy::State::TakeShards(
    VariableInfo* info, const proto::VariableSpec& spec,
    const std::vector<proto::ShardSpec>& saved) {
  const proto::VariableSpec& there = saved[0].variable();
  const auto describe = [](const proto::VariableSpec& v) {
    const std::string optimizer = v.optimizer().kind().empty() ? "no" : v.optimizer().kind();
    return absl::StrCat(v.table() ? "a table " : "a variable ",
                        DTypeName(static_cast<DType>(v.dtype())),
                        graph::FromProto(v.shape()).ToString(), " with ", optimizer, " optimizer",
                        v.optimizer().ema_decay() > 0 ? " and moving averages" : "");
  };
  const std::string wanted = describe(there), found = describe(spec);
  if (wanted != found) {
    return absl::InvalidArgumentError(absl::StrCat(
        "variable '", info->name, "': the checkpoint has ", wanted, ", the program makes ", found));
  }
  info->strategy = saved[0].strategy();
  // A program that goes on need not know with which slots its job began.
  proto::VariableSpec kept = spec;
  if (const auto steps = kernels::FindParameter(there.optimizer(), kernels::kEarlierSteps)) {
    kernels::SetParameter(kernels::kEarlierSteps, *steps, kept.mutable_optimizer());
  }
  for (proto::ShardSpec shard : saved) {
    *shard.mutable_variable() = kept;
    shard.set_ps(cluster.catalog()->PsOf(shard.id()));
    info->shards.push_back(std::move(shard));
  }
  return absl::OkStatus();
}

void ParameterServerStrategy::State::TellKeptShards(const VariableInfo& info,
                                                    int64_t wanted) const {
  const auto kept = static_cast<int64_t>(info.shards.size());
  if (kept == wanted || !options.tell_kept_shards) return;
  LogWarning(info.table ? "table '" : "variable '", info.name, "' keeps the ", kept,
             kept == 1 ? " shard" : " shards",
             " that it has in the checkpoint, its partitioner "
             "wants ",
             wanted, ": a checkpoint is gone on from with the shards that it has");
}

namespace {

// What the strategy says of all optimizers, where this one does not say it itself.
absl::Status CompleteOptimizer(const std::string& name,
                               const ParameterServerStrategy::Options& options,
                               proto::OptimizerSpec* optimizer) {
  if (optimizer->kind().empty()) return absl::OkStatus();
  const Consistency& consistency = options.consistency;
  if (consistency.in_steps() && optimizer->delay_compensation() != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "variable '", name, "': delay_compensation of its optimizer: only where an update is of ",
        "one batch and applied as it comes; wanted 0, found ", optimizer->delay_compensation()));
  }
  if (optimizer->staleness_rate().empty()) {
    *optimizer = WithStalenessRate(*optimizer, consistency.staleness_rate).proto();
  }
  if (!optimizer->has_delay_compensation()) {
    optimizer->set_delay_compensation(consistency.delay_compensation);
  }
  optimizer->set_ema_decay(options.ema_decay);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const VariableInfo>> ParameterServerStrategy::State::Create(
    std::shared_ptr<VariableInfo> info, const proto::InitializerSpec& initializer, int64_t shards) {
  RETURN_IF_ERROR(CheckConsistency(options.consistency));
  RETURN_IF_ERROR(CheckName(info->table ? "table" : "variable", info->name));
  Catalog* const catalog = cluster.catalog();
  RETURN_IF_ERROR(catalog->TakeName(info->name, StrategyName(number)));
  info->owner = number;
  absl::Status status = CreateShards(info.get(), initializer, shards);
  if (!status.ok()) {
    catalog->ReleaseName(info->name);
    if (layout.count(info->name) == 0) catalog->Remove(info->shards);
    return status;
  }
  variables.push_back(info);
  return std::shared_ptr<const VariableInfo>(std::move(info));
}

absl::Status ParameterServerStrategy::State::CreateShards(VariableInfo* info,
                                                          const proto::InitializerSpec& initializer,
                                                          int64_t shards) {
  proto::VariableSpec spec;
  spec.set_name(info->name);
  spec.set_dtype(static_cast<int>(info->dtype));
  *spec.mutable_shape() = graph::ToProto(info->shape);
  *spec.mutable_initializer() = initializer;
  if (initializer.kind().empty()) spec.mutable_initializer()->set_kind("zeros");
  *spec.mutable_optimizer() = info->optimizer;
  RETURN_IF_ERROR(CompleteOptimizer(info->name, options, spec.mutable_optimizer()));
  spec.set_table(info->table);
  spec.set_rounding(info->rounding);
  spec.set_device(info->device);
  if (info->hash()) *spec.mutable_hash() = *info->hash_table;
  const auto saved = layout.find(info->name);
  RETURN_IF_ERROR(saved == layout.end() ? MakeShards(info, spec, shards)
                                        : TakeShards(info, spec, saved->second));
  return WaitForStatus(
      [&](auto done) { cluster.controller()->CreateShards(info->shards, std::move(done)); },
      WaitReporter(cluster).For(absl::StrCat("the shards of '", info->name, "'")));
}

absl::StatusOr<Variable> ParameterServerStrategy::CreateVariable(const std::string& name,
                                                                 const VariableOptions& options) {
  if (!options.shape.IsFullyKnown()) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable '", name, "': shape ", options.shape.ToString(), " is not known"));
  }
  if (options.wire_dtype != DType::kF32 &&
      (options.wire_dtype != DType::kBF16 || options.dtype != DType::kF32)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "variable '", name, "': wire_dtype: wanted f32, or bf16 for a variable in f32; found ",
        DTypeName(options.wire_dtype), " for one in ", DTypeName(options.dtype)));
  }
  auto info = std::make_shared<VariableInfo>();
  info->name = name;
  info->dtype = options.dtype;
  info->wire_dtype = options.wire_dtype;
  info->shape = options.shape;
  info->optimizer = options.optimizer;
  info->strategy = "div";
  const Partitioner& partitioner = state_->PartitionerOf(options.partitioner);
  const int64_t shards =
      partitioner && info->shape.rank() > 0 ? partitioner(info->dtype, info->shape) : 1;
  ASSIGN_OR_RETURN(auto created, state_->Create(std::move(info), options.initializer, shards));
  if (partitioner) state_->TellKeptShards(*created, shards);
  return Variable(std::move(created));
}

absl::StatusOr<EmbeddingTable> ParameterServerStrategy::CreateTable(const std::string& name,
                                                                    const TableOptions& options) {
  if (options.dim < 1 || (options.rows < 1 && !options.hash)) {
    return absl::InvalidArgumentError(absl::StrCat("table '", name,
                                                   "': wanted at least one row and "
                                                   "one column, found ",
                                                   options.rows, " x ", options.dim));
  }
  if (options.wire_dtype != DType::kF32 && options.wire_dtype != DType::kBF16) {
    return absl::InvalidArgumentError(absl::StrCat(
        "table '", name, "': rows travel as f32 or bf16, found ", DTypeName(options.wire_dtype)));
  }
  auto info = std::make_shared<VariableInfo>();
  info->name = name;
  info->wire_dtype = options.wire_dtype;
  info->shape = Shape{options.hash ? kUnknownDim : options.rows, options.dim};
  if (options.hash) info->hash_table = ToProto(*options.hash);
  info->optimizer = options.optimizer;
  info->dtype = options.dtype;
  if (options.rounding || info->dtype == DType::kBF16) {
    info->rounding = Word(options.rounding.value_or(Rounding::kStochastic));
  }
  if (options.device != TableDevice::kCpu) info->device = Word(options.device);
  info->table = true;
  info->strategy = options.hash ? "hash" : Word(options.sharding);
  Partitioner partitioner = state_->PartitionerOf(options.partitioner);
  const bool wants_shards = partitioner != nullptr;
  if (!partitioner) partitioner = FixedShards(state_->cluster.num_ps());
  Shape largest = info->shape;
  if (options.hash && options.hash->max_rows > 0) largest.set_dim(0, options.hash->max_rows);
  const int64_t shards = partitioner(info->dtype, largest);
  ASSIGN_OR_RETURN(auto created, state_->Create(std::move(info), options.initializer, shards));
  if (wants_shards) state_->TellKeptShards(*created, shards);
  return EmbeddingTable(std::move(created));
}

}  // namespace coxswain
