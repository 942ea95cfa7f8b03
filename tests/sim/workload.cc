#include "tests/sim/workload.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/api/function_builder.h"
#include "coordinator/api/optimizers.h"
#include "kernels/register.h"
#include "ps_server/shard_store.h"
#include "runtime/base/logging.h"
#include "runtime/function/executor.h"
#include "runtime/graph/serialize.h"

namespace coxswain::sim {
namespace {

// For what cannot fail in these small functions.
template <typename T>
T Must(absl::StatusOr<T> value) {
  COX_CHECK(value.ok(), value.status().ToString());
  return *std::move(value);
}

std::shared_ptr<VariableInfo> NewVariable(const std::string& name, const Shape& shape, bool table,
                                          const proto::OptimizerSpec& optimizer, int shards,
                                          uint32_t* last_id) {
  auto info = std::make_shared<VariableInfo>();
  info->name = name;
  info->shape = shape;
  info->optimizer = optimizer;
  info->table = table;
  info->strategy = table ? "mod" : "div";
  proto::VariableSpec spec;
  spec.set_name(name);
  spec.set_dtype(static_cast<int>(info->dtype));
  *spec.mutable_shape() = ToProto(shape);
  *spec.mutable_initializer() = Zeros();
  *spec.mutable_optimizer() = optimizer;
  spec.set_table(table);
  int64_t begin = 0;
  for (int s = 0; s < shards; ++s) {
    proto::ShardSpec shard;
    shard.set_id(++*last_id);
    *shard.mutable_variable() = spec;
    shard.set_index(s);
    shard.set_count(shards);
    shard.set_strategy(info->strategy);
    shard.set_rows(info->rows() / shards + (s < info->rows() % shards ? 1 : 0));
    shard.set_row_begin(table ? 0 : begin);
    begin += shard.rows();
    info->shards.push_back(std::move(shard));
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

// What `applied` of a shard must be, when each of `steps` steps updates it once.
std::string CheckApplied(const FinalState& state, const FinalShard& shard, int64_t steps) {
  const bool fine = state.updates_may_be_lost ? shard.applied <= steps : shard.applied == steps;
  return fine ? ""
              : absl::StrCat("shard ", shard.spec.id(), " has applied ", shard.applied,
                             " updates, wanted ", steps);
}

class AddOnes final : public Workload {
 public:
  explicit AddOnes(const AddOnesOptions& options) : options_(options) {
    uint32_t last_id = 0;
    for (int v = 0; v < options.variables; ++v) {
      variables_.push_back(NewVariable(absl::StrCat("ones", v),
                                       Shape{2 * options.shards_per_variable}, false, {},
                                       options.shards_per_variable, &last_id));
      for (int s = 0; s < options.shards_per_variable; ++s) shards_.push_back({v, s});
    }
    for (int f = 0; f < options.functions; ++f) {
      Define(absl::StrCat("share", f), [&](GraphBuilder* g) {
        for (size_t s = 0; s < shards_.size(); ++s) {
          if (InShare(f, s)) AddTo(g, s, One(g));
        }
      });
    }
    if (options.functions > 0) return;
    const size_t last = shards_.size() - 1;
    Define("all", [&](GraphBuilder* g) {
      for (size_t s = 0; s < shards_.size(); ++s) AddTo(g, s, One(g));
      g->Result("first", Read(g, 0));
    });
    Define("chain", [&](GraphBuilder* g) {
      AddTo(g, last, OneAfter(g, 0));
      if (last > 1) AddTo(g, 1, OneAfter(g, last));
    });
    Define("first", [&](GraphBuilder* g) { AddTo(g, 0, One(g)); });
    Define("twice", [&](GraphBuilder* g) {
      AddTo(g, 0, One(g));
      AddTo(g, 0, OneAfter(g, last));
    });
  }

  std::vector<proto::ShardSpec> Shards(int num_ps) const override {
    return Spread(variables_, num_ps);
  }
  std::vector<std::shared_ptr<const Function>> Functions() const override { return functions_; }
  int64_t closures() const override { return options_.closures; }
  ClosureSpec Closure(int64_t index) const override {
    ClosureSpec spec;
    spec.plan = static_cast<PlanId>(1 + PlanOf(index));
    spec.steps = index % 3 == 0 ? options_.steps : 1;
    spec.seed = static_cast<uint64_t>(index);
    return spec;
  }

  std::string Check(const FinalState& state) const override {
    std::vector<int64_t> wanted(shards_.size());
    for (int64_t i = 0; i < options_.closures; ++i) {
      if (i == options_.skipped) continue;
      const int64_t steps = Closure(i).steps;
      for (size_t s = 0; s < shards_.size(); ++s) wanted[s] += steps * Ones(PlanOf(i), s);
    }
    int64_t missing = 0;
    for (size_t s = 0; s < shards_.size(); ++s) {
      const FinalShard& shard = state.shards[s];
      for (float value : shard.rows.values<float>()) {
        const auto found = static_cast<int64_t>(value);
        if (found == wanted[s] || (state.updates_may_be_lost && found < wanted[s])) continue;
        return absl::StrCat("shard ", shard.spec.id(), " holds ", found, ", wanted ", wanted[s]);
      }
      missing += wanted[s] - static_cast<int64_t>(shard.rows.values<float>()[0]);
      // The two updates of "twice" are one segment or two.
      if (s == 0 && options_.functions == 0) continue;
      if (auto wrong = CheckApplied(state, shard, wanted[s]); !wrong.empty()) return wrong;
    }
    if (state.updates_may_be_lost && state.updates_lost >= 0 && missing != state.updates_lost) {
      return absl::StrCat(missing, " updates are missing, and ", state.updates_lost,
                          " are reported as lost");
    }
    return "";
  }

 private:
  bool InShare(int function, size_t shard) const {
    return static_cast<int>(shard) % options_.functions == function;
  }
  // What a step of the function adds to the shard.
  int64_t Ones(int plan, size_t shard) const {
    const size_t last = shards_.size() - 1;
    if (options_.functions > 0) return InShare(plan, shard) ? 1 : 0;
    if (plan == 0) return 1;
    if (plan == 1) return (shard == last ? 1 : 0) + (last > 1 && shard == 1 ? 1 : 0);
    return shard == 0 ? plan - 1 : 0;
  }
  int PlanOf(int64_t index) const {
    if (options_.functions > 0) return static_cast<int>(index % options_.functions);
    const int64_t kind = index % 8;
    return kind < 4 ? 0 : kind < 6 ? 1 : kind == 6 ? 2 : 3;
  }
  void Define(const std::string& name, absl::FunctionRef<void(GraphBuilder*)> build) {
    GraphBuilder builder(name, SimRegistry());
    build(&builder);
    functions_.push_back(std::make_shared<const Function>(Must(builder.Finish())));
  }
  Attrs AttrsOf(size_t shard) const {
    const proto::ShardSpec& spec = variables_[static_cast<size_t>(shards_[shard].first)]
                                       ->shards[static_cast<size_t>(shards_[shard].second)];
    return {{"shard", static_cast<int64_t>(spec.id())},
            {"variable", absl::StrCat(spec.variable().name(), "/part_", spec.index())}};
  }
  static Output One(GraphBuilder* g) { return g->Constant(Tensor::FromVector<float>({1, 1})); }
  Output Read(GraphBuilder* g, size_t shard) const {
    Attrs attrs = AttrsOf(shard);
    attrs["dtype"] = DType::kF32;
    attrs["shape"] = Shape{2};
    return g->Op("ReadVariable", {}, std::move(attrs));
  }
  // 1, but not before `shard` was read.
  Output OneAfter(GraphBuilder* g, size_t shard) const {
    return g->Op("Add", {g->Op("Mul", {Read(g, shard), g->Scalar(0)}), g->Scalar(1)});
  }
  void AddTo(GraphBuilder* g, size_t shard, Output value) const {
    g->Target("AssignAddVariable", {value}, AttrsOf(shard));
  }

  const AddOnesOptions options_;
  std::vector<std::shared_ptr<VariableInfo>> variables_;
  std::vector<std::pair<int, int>> shards_;  // variable and part, by id - 1
  std::vector<std::shared_ptr<const Function>> functions_;
};

class Fit final : public Workload {
 public:
  explicit Fit(const FitOptions& options) : options_(options) {
    uint32_t last_id = 0;
    proto::OptimizerSpec optimizer = options.optimizer == "adam" ? Adam(0.05) : Momentum(0.05);
    weights_ = NewVariable("weights", Shape{4, 1}, false, optimizer, 1, &last_id);
    // Another PS takes part too.
    steps_ = NewVariable("steps", Shape{1}, false, {}, 1, &last_id);
    FunctionBuilder f("fit", SimRegistry());
    Output x = f.Argument("x", DType::kF32, Shape{8, 4});
    Output y = f.Argument("y", DType::kF32, Shape{8, 1});
    Output loss = f.Mean(f.Square(f.Sub(f.MatMul(x, f.Read(Variable(weights_))), y)));
    f.Minimize(loss);
    f.AssignAdd(Variable(steps_), f.Constant(Tensor::FromVector<float>({1})));
    f.Result("loss", loss);
    function_ = std::make_shared<const Function>(Must(f.graph().Finish()));
  }

  std::vector<proto::ShardSpec> Shards(int num_ps) const override {
    return Spread({weights_, steps_}, num_ps);
  }
  std::vector<std::shared_ptr<const Function>> Functions() const override { return {function_}; }
  int64_t closures() const override { return options_.closures; }
  bool synchronous() const override { return true; }

  ClosureSpec Closure(int64_t index) const override {
    Random random(options_.seed * 1000003 + static_cast<uint64_t>(index));
    std::vector<float> x(32), y(8);
    for (float& v : x) v = static_cast<float>(random.Real() * 2 - 1);
    for (size_t i = 0; i < 8; ++i) {
      y[i] = 0.5f * x[4 * i] - 1.5f * x[4 * i + 1] + x[4 * i + 2] + 0.25f;
    }
    ClosureSpec spec;
    spec.plan = 1;
    spec.steps = options_.steps;
    spec.arguments = {Tensor::FromVector(x, Shape{8, 4}), Tensor::FromVector(y, Shape{8, 1})};
    return spec;
  }

  std::string Check(const FinalState& state) const override {
    ShardStore store;
    for (const proto::ShardSpec& shard : Shards(1)) {
      COX_CHECK(store.Add(shard).ok());
    }
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
    const Tensor wanted = Must(Must(store.Get(1))->Read());
    const Tensor& found = state.shards[0].rows;
    if (wanted.bytes() != found.bytes() ||
        std::memcmp(wanted.raw(), found.raw(), wanted.bytes()) != 0) {
      return absl::StrCat("the weights are ", found.ToString(), ", a run in one process gives ",
                          wanted.ToString());
    }
    const int64_t steps = options_.closures * options_.steps;
    for (const FinalShard& shard : state.shards) {
      if (auto wrong = CheckApplied(state, shard, steps); !wrong.empty()) return wrong;
    }
    return "";
  }

 private:
  const FitOptions options_;
  std::shared_ptr<VariableInfo> weights_, steps_;
  std::shared_ptr<const Function> function_;
};

class Visits final : public Workload {
 public:
  explicit Visits(const VisitOptions& options) : options_(options) {
    uint32_t last_id = 0;
    table_ =
        NewVariable("visits", Shape{options.examples, 1}, true, Sgd(1), options.shards, &last_id);
    FunctionBuilder f("visit", SimRegistry());
    Output ids = f.Argument("ids", DType::kI64, Shape{-1});
    // The gradient of each row is -1, so a step at rate 1 adds 1.
    Output loss = f.Neg(f.Sum(f.Lookup(EmbeddingTable(table_), ids)));
    f.Minimize(loss);
    f.Result("loss", loss);
    function_ = std::make_shared<const Function>(Must(f.graph().Finish()));
  }

  std::vector<proto::ShardSpec> Shards(int num_ps) const override {
    return Spread({table_}, num_ps);
  }
  std::vector<std::shared_ptr<const Function>> Functions() const override { return {function_}; }
  int64_t closures() const override { return options_.epochs * batches(); }

  ClosureSpec Closure(int64_t index) const override {
    const int64_t epoch = index / batches();
    std::vector<int64_t> order(static_cast<size_t>(options_.examples));
    std::iota(order.begin(), order.end(), int64_t{0});
    Random random(options_.seed * 977 + static_cast<uint64_t>(epoch));
    for (size_t i = order.size() - 1; i > 0; --i) {
      std::swap(order[i], order[static_cast<size_t>(random.Below(static_cast<int64_t>(i) + 1))]);
    }
    const int64_t begin = index % batches() * options_.batch;
    const int64_t end = std::min(options_.examples, begin + options_.batch);
    ClosureSpec spec;
    spec.plan = 1;
    spec.arguments = {
        Tensor::FromVector(std::vector<int64_t>(order.begin() + begin, order.begin() + end))};
    return spec;
  }

  std::string Check(const FinalState& state) const override {
    for (const FinalShard& shard : state.shards) {
      const auto visits = shard.rows.values<float>();
      for (size_t r = 0; r < visits.size(); ++r) {
        const auto found = static_cast<int64_t>(visits[r]);
        if (found == options_.epochs || (state.updates_may_be_lost && found < options_.epochs)) {
          continue;
        }
        return absl::StrCat("example ",
                            shard.spec.index() + static_cast<int64_t>(r) * shard.spec.count(),
                            " was visited ", found, " times in ", options_.epochs, " epochs");
      }
      if (auto wrong = CheckApplied(state, shard, closures()); !wrong.empty()) return wrong;
    }
    return "";
  }

 private:
  int64_t batches() const { return (options_.examples + options_.batch - 1) / options_.batch; }

  const VisitOptions options_;
  std::shared_ptr<VariableInfo> table_;
  std::shared_ptr<const Function> function_;
};

}  // namespace

std::unique_ptr<Workload> NewAddOnes(const AddOnesOptions& options) {
  return std::make_unique<AddOnes>(options);
}
std::unique_ptr<Workload> NewFit(const FitOptions& options) {
  return std::make_unique<Fit>(options);
}
std::unique_ptr<Workload> NewVisits(const VisitOptions& options) {
  return std::make_unique<Visits>(options);
}

const OpRegistry* SimRegistry() {
  static const OpRegistry* const kRegistry = [] {
    auto* registry = new OpRegistry;
    RegisterAllOps(registry);
    RegisterPsCall(registry);
    return registry;
  }();
  return kRegistry;
}

}  // namespace coxswain::sim
