#include "tests/sim/workload_parts.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/api/variable_info.h"
#include "ps_server/shard_store.h"
#include "runtime/function/executor.h"
#include "runtime/graph/serialize.h"

namespace coxswain::sim {
namespace {

std::string StrategyOf(const VariableChoice& choice) {
  if (choice.hash) return "hash";
  return choice.table ? "mod" : "div";
}

}  // namespace

std::shared_ptr<VariableInfo> NewVariable(const VariableChoice& choice, uint32_t* last_id) {
  auto info = std::make_shared<VariableInfo>();
  info->name = choice.name;
  info->dtype = choice.dtype;
  info->rounding = choice.rounding;
  info->wire_dtype = choice.wire_dtype;
  info->shape = choice.shape;
  info->optimizer = choice.optimizer;
  info->table = choice.table;
  info->strategy = StrategyOf(choice);
  info->hash_table = choice.hash;
  proto::VariableSpec spec;
  spec.set_name(choice.name);
  spec.set_dtype(static_cast<int>(choice.dtype));
  spec.set_rounding(choice.rounding);
  *spec.mutable_shape() = graph::ToProto(choice.shape);
  *spec.mutable_initializer() = choice.initializer;
  *spec.mutable_optimizer() = choice.optimizer;
  spec.set_table(choice.table);
  if (choice.hash) *spec.mutable_hash() = *choice.hash;
  int64_t begin = 0;
  for (int s = 0; s < choice.shards; ++s) {
    proto::ShardSpec& shard = info->shards.emplace_back();
    shard.set_id(++*last_id);
    *shard.mutable_variable() = spec;
    shard.set_index(s);
    shard.set_count(choice.shards);
    shard.set_strategy(info->strategy);
    if (choice.hash) continue;
    shard.set_rows(info->rows() / choice.shards + (s < info->rows() % choice.shards ? 1 : 0));
    shard.set_row_begin(choice.table ? 0 : begin);
    begin += shard.rows();
  }
  return info;
}

std::vector<proto::ShardSpec> Spread(const std::vector<std::shared_ptr<VariableInfo>>& variables,
                                     int num_ps) {
  std::vector<proto::ShardSpec> shards;
  for (const auto& info : variables) {
    for (proto::ShardSpec shard : info->shards) {
      shard.set_ps(static_cast<int>(shards.size()) % num_ps);
      shards.push_back(std::move(shard));
    }
  }
  return shards;
}

std::string CheckApplied(const FinalState& state, const FinalShard& shard, int64_t steps) {
  const bool fine = state.updates_may_be_lost ? shard.applied <= steps : shard.applied == steps;
  return fine ? ""
              : absl::StrCat("shard ", shard.spec.id(), " has applied ", shard.applied,
                             " updates, wanted ", steps);
}

std::string CheckApplied(const FinalState& state, int64_t steps) {
  for (const FinalShard& shard : state.shards) {
    if (auto wrong = CheckApplied(state, shard, steps); !wrong.empty()) return wrong;
  }
  return "";
}

FinalState RunAlone(const Workload& workload) {
  ps::ShardStore store;
  const std::vector<proto::ShardSpec> shards = workload.Shards(1);
  for (const proto::ShardSpec& shard : shards) COX_CHECK(store.Add(shard).ok());
  auto compiled = Must(function::CompiledFunction::Compile(*workload.Functions()[0]));
  auto pool = env::NewInlinePool();
  int64_t position = 0;
  for (int64_t i = 0; i < workload.closures(); ++i) {
    const core::ClosureSpec spec = workload.Closure(i);
    const uint64_t seed = core::SeedOfUpdates(spec.seed, position);
    position += spec.steps;
    for (uint32_t step = 0; step < spec.steps; ++step) {
      ps::SegmentTransaction transaction(&store);
      function::RunOptions options;
      options.pool = pool.get();
      options.variables = &transaction;
      Must(compiled->Run(spec.arguments, options));
      transaction.Commit(
          {.closure = static_cast<ClosureId>(i + 1), .step = step, .seconds = 0, .seed = seed});
    }
  }
  FinalState state;
  for (const proto::ShardSpec& spec : shards) {
    const ps::Shard* shard = Must(store.Get(spec.id()));
    FinalShard& final = state.shards.emplace_back();
    final.spec = spec;
    final.applied = shard->applied();
    if (!spec.variable().has_hash()) {
      final.rows = Must(shard->ReadRows(0, shard->rows()));
      continue;
    }
    auto read = Must(shard->ReadIds(0, shard->rows()));
    final.rows = std::move(read.rows);
    final.ids = std::move(read.ids);
  }
  return state;
}

std::map<int64_t, std::string> RowsById(const FinalState& state, std::string* wrong) {
  std::map<int64_t, std::string> rows;
  for (const FinalShard& shard : state.shards) {
    const int64_t count = shard.rows.dim(0);
    const size_t row_bytes = count == 0 ? 0 : shard.rows.bytes() / static_cast<size_t>(count);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t id = shard.spec.variable().has_hash()
                             ? shard.ids.data<int64_t>()[i]
                             : shard.spec.index() + i * shard.spec.count();
      const char* row =
          static_cast<const char*>(shard.rows.raw()) + static_cast<size_t>(i) * row_bytes;
      if (!rows.emplace(id, std::string(row, row_bytes)).second) {
        *wrong = absl::StrCat("id ", id, " has two rows");
      }
    }
  }
  return rows;
}

}  // namespace coxswain::sim
