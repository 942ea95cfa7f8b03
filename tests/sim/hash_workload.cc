// Workloads on hash tables.
#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/api/function_builder.h"
#include "coordinator/api/optimizers.h"
#include "ps_server/shard_store.h"
#include "runtime/base/id_hash.h"
#include "runtime/base/logging.h"
#include "runtime/function/executor.h"
#include "runtime/graph/serialize.h"
#include "tests/sim/workload.h"

namespace coxswain::sim {
namespace {

template <typename T>
T Must(absl::StatusOr<T> value) {
  COX_CHECK(value.ok(), value.status().ToString());
  return *std::move(value);
}

std::shared_ptr<VariableInfo> NewHashTable(const std::string& name, int64_t dim,
                                           const proto::HashTableSpec& table,
                                           const proto::OptimizerSpec& optimizer,
                                           const proto::InitializerSpec& initializer, int shards) {
  auto info = std::make_shared<VariableInfo>();
  info->name = name;
  info->shape = Shape{kUnknownDim, dim};
  info->optimizer = optimizer;
  info->table = true;
  info->strategy = "hash";
  info->hash_table = table;
  proto::VariableSpec spec;
  spec.set_name(name);
  spec.set_dtype(static_cast<int>(info->dtype));
  *spec.mutable_shape() = ToProto(info->shape);
  *spec.mutable_initializer() = initializer;
  *spec.mutable_optimizer() = optimizer;
  spec.set_table(true);
  *spec.mutable_hash() = table;
  for (int s = 0; s < shards; ++s) {
    proto::ShardSpec& shard = info->shards.emplace_back();
    shard.set_id(static_cast<uint32_t>(s + 1));
    *shard.mutable_variable() = spec;
    shard.set_index(s);
    shard.set_count(shards);
    shard.set_strategy("hash");
  }
  return info;
}

std::vector<proto::ShardSpec> Spread(const VariableInfo& info, int num_ps) {
  std::vector<proto::ShardSpec> shards = info.shards;
  for (size_t s = 0; s < shards.size(); ++s) shards[s].set_ps(static_cast<int>(s) % num_ps);
  return shards;
}

std::string CheckApplied(const FinalState& state, int64_t steps) {
  for (const FinalShard& shard : state.shards) {
    if (shard.applied == steps || (state.updates_may_be_lost && shard.applied < steps)) continue;
    return absl::StrCat("shard ", shard.spec.id(), " has applied ", shard.applied,
                        " updates, wanted ", steps);
  }
  return "";
}

// By id. Empty and `wrong` set when an id is there twice.
std::map<int64_t, std::vector<float>> RowsOf(const FinalState& state, std::string* wrong) {
  std::map<int64_t, std::vector<float>> rows;
  for (const FinalShard& shard : state.shards) {
    const int64_t dim = shard.rows.dim(1);
    for (int64_t i = 0; i < shard.ids.dim(0); ++i) {
      const int64_t id = shard.ids.data<int64_t>()[i];
      const float* row = shard.rows.data<float>() + i * dim;
      if (!rows.emplace(id, std::vector<float>(row, row + dim)).second) {
        *wrong = absl::StrCat("id ", id, " has two rows");
      }
    }
  }
  return rows;
}

class HashVisits final : public Workload {
 public:
  explicit HashVisits(const HashVisitOptions& options)
      : options_(options.visits), min_count_(options.min_count) {
    proto::HashTableSpec table;
    table.set_min_count(min_count_);
    table_ = NewHashTable("visits", 1, table, Sgd(1), Zeros(), options_.shards);
    FunctionBuilder f("visit", SimRegistry());
    Output ids = f.Argument("ids", DType::kI64, Shape{-1});
    // The gradient of each row is -1, so a step at rate 1 adds 1.
    Output loss = f.Neg(f.Sum(f.Lookup(EmbeddingTable(table_), ids)));
    f.Minimize(loss);
    f.Result("loss", loss);
    function_ = std::make_shared<const Function>(Must(f.graph().Finish()));
  }

  std::vector<proto::ShardSpec> Shards(int num_ps) const override {
    return Spread(*table_, num_ps);
  }
  std::vector<std::shared_ptr<const Function>> Functions() const override { return {function_}; }
  int64_t closures() const override { return options_.epochs * batches(); }

  ClosureSpec Closure(int64_t index) const override {
    std::vector<int64_t> order(static_cast<size_t>(options_.examples));
    std::iota(order.begin(), order.end(), int64_t{0});
    Random random(options_.seed * 977 + static_cast<uint64_t>(index / batches()));
    for (size_t i = order.size() - 1; i > 0; --i) {
      std::swap(order[i], order[static_cast<size_t>(random.Below(static_cast<int64_t>(i) + 1))]);
    }
    const int64_t begin = index % batches() * options_.batch;
    const int64_t end = std::min(options_.examples, begin + options_.batch);
    std::vector<int64_t> ids;
    for (int64_t i = begin; i < end; ++i) ids.push_back(IdOf(order[static_cast<size_t>(i)]));
    ClosureSpec spec;
    spec.plan = 1;
    spec.arguments = {Tensor::FromVector(ids)};
    return spec;
  }

  std::string Check(const FinalState& state) const override {
    std::string wrong;
    const auto rows = RowsOf(state, &wrong);
    if (!wrong.empty()) return wrong;
    const int64_t wanted = options_.epochs - min_count_ + 1;
    size_t found = 0;
    for (int64_t example = 0; example < options_.examples; ++example) {
      const auto row = rows.find(IdOf(example));
      const int64_t visits = row == rows.end() ? 0 : static_cast<int64_t>(row->second[0]);
      found += row != rows.end();
      if (visits == std::max<int64_t>(0, wanted) ||
          (state.updates_may_be_lost && visits < wanted)) {
        continue;
      }
      return absl::StrCat("id ", IdOf(example), " has ", visits, " visits in its row, wanted ",
                          wanted);
    }
    if (found != rows.size()) {
      return absl::StrCat(rows.size() - found, " rows of ids that never came");
    }
    return CheckApplied(state, closures());
  }

 private:
  int64_t batches() const { return (options_.examples + options_.batch - 1) / options_.batch; }
  static int64_t IdOf(int64_t example) { return static_cast<int64_t>(HashId(example)); }

  const VisitOptions options_;
  const int64_t min_count_;
  std::shared_ptr<VariableInfo> table_;
  std::shared_ptr<const Function> function_;
};

class HashFit final : public Workload {
 public:
  explicit HashFit(const HashFitOptions& options) : options_(options) {
    table_ = NewHashTable("rows", 3, options.table, Adagrad(0.1), NormalInit(0.3, options.seed),
                          options.shards);
    FunctionBuilder f("fit", SimRegistry());
    Output ids = f.Argument("ids", DType::kI64, Shape{-1});
    Output loss = f.Mean(f.Square(f.Sub(f.Lookup(EmbeddingTable(table_), ids), f.Scalar(1))));
    f.Minimize(loss);
    f.Result("loss", loss);
    function_ = std::make_shared<const Function>(Must(f.graph().Finish()));
  }

  std::vector<proto::ShardSpec> Shards(int num_ps) const override {
    return Spread(*table_, num_ps);
  }
  std::vector<std::shared_ptr<const Function>> Functions() const override { return {function_}; }
  int64_t closures() const override { return options_.closures; }
  bool synchronous() const override { return true; }

  ClosureSpec Closure(int64_t index) const override {
    Random random(options_.seed * 1000003 + static_cast<uint64_t>(index));
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < options_.batch; ++i) {
      // The square makes small ones come more often.
      const double x = random.Real();
      ids.push_back(static_cast<int64_t>(
          HashId(static_cast<int64_t>(x * x * static_cast<double>(options_.ids)))));
    }
    ClosureSpec spec;
    spec.plan = 1;
    spec.steps = options_.steps;
    spec.arguments = {Tensor::FromVector(ids)};
    return spec;
  }

  std::string Check(const FinalState& state) const override {
    ShardStore store;
    for (const proto::ShardSpec& shard : Shards(1)) COX_CHECK(store.Add(shard).ok());
    auto compiled = Must(CompiledFunction::Compile(*function_, DeviceType::kCpu));
    auto pool = NewInlinePool();
    for (int64_t i = 0; i < options_.closures; ++i) {
      const ClosureSpec spec = Closure(i);
      for (uint32_t step = 0; step < spec.steps; ++step) {
        SegmentTransaction transaction(&store);
        RunOptions options;
        options.pool = pool.get();
        options.variables = &transaction;
        Must(compiled->Run(spec.arguments, options));
        transaction.Commit(static_cast<ClosureId>(i + 1), step);
      }
    }
    FinalState alone;
    for (const proto::ShardSpec& spec : Shards(1)) {
      const Shard* shard = Must(store.Get(spec.id()));
      auto read = Must(shard->ReadIds(0, shard->rows()));
      alone.shards.push_back({spec, read.rows, read.ids, shard->applied()});
    }
    std::string wrong;
    const auto found = RowsOf(state, &wrong), wanted = RowsOf(alone, &wrong);
    if (!wrong.empty()) return wrong;
    if (found != wanted) {
      for (const auto& [id, row] : wanted) {
        const auto other = found.find(id);
        if (other != found.end() && other->second == row) continue;
        return absl::StrCat("id ", id, other == found.end() ? " has no row" : " has another row",
                            ", unlike in one process; ", found.size(), " rows, wanted ",
                            wanted.size());
      }
      return absl::StrCat(found.size(), " rows, in one process there are ", wanted.size());
    }
    return CheckApplied(state, options_.closures * options_.steps);
  }

 private:
  const HashFitOptions options_;
  std::shared_ptr<VariableInfo> table_;
  std::shared_ptr<const Function> function_;
};

}  // namespace

std::unique_ptr<Workload> NewHashVisits(const HashVisitOptions& options) {
  return std::make_unique<HashVisits>(options);
}
std::unique_ptr<Workload> NewHashFit(const HashFitOptions& options) {
  return std::make_unique<HashFit>(options);
}

}  // namespace coxswain::sim
