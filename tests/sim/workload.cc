#include "tests/sim/workload.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/api/variable_info.h"
#include "coxswain/function_builder.h"
#include "kernels/register.h"
#include "runtime/function/place_on_devices.h"
#include "runtime/graph/builder.h"
#include "tests/sim/workload_parts.h"

namespace coxswain::sim {
namespace {

class AddOnes final : public Workload {
 public:
  explicit AddOnes(const AddOnesOptions& options) : options_(options) {
    uint32_t last_id = 0;
    for (int v = 0; v < options.variables; ++v) {
      variables_.push_back(NewVariable({.name = absl::StrCat("ones", v),
                                        .shape = Shape{2 * options.shards_per_variable},
                                        .shards = options.shards_per_variable},
                                       &last_id));
      for (int s = 0; s < options.shards_per_variable; ++s) shards_.push_back({v, s});
    }
    for (int f = 0; f < options.functions; ++f) {
      Define(absl::StrCat("share", f), [&](graph::GraphBuilder* g) {
        for (size_t s = 0; s < shards_.size(); ++s) {
          if (InShare(f, s)) AddTo(g, s, One(g));
        }
      });
    }
    if (options.functions > 0) return;
    const size_t last = shards_.size() - 1;
    Define("all", [&](graph::GraphBuilder* g) {
      for (size_t s = 0; s < shards_.size(); ++s) AddTo(g, s, One(g));
      g->Result("first", Read(g, 0));
    });
    Define("chain", [&](graph::GraphBuilder* g) {
      AddTo(g, last, OneAfter(g, 0));
      if (last > 1) AddTo(g, 1, OneAfter(g, last));
    });
    Define("first", [&](graph::GraphBuilder* g) { AddTo(g, 0, One(g)); });
    Define("twice", [&](graph::GraphBuilder* g) {
      AddTo(g, 0, One(g));
      AddTo(g, 0, OneAfter(g, last));
    });
    // What it returns is large, and what it takes may be.
    Define("first, and a product", [&](graph::GraphBuilder* g) {
      const Output column = g->Argument("column", DType::kF32, Shape{kUnknownDim, 1});
      AddTo(g, 0, One(g));
      const int64_t side = AddOnesOptions::kLargeResult / 128;
      const Output row = g->Constant(
          Tensor::FromVector<float>(std::vector<float>(static_cast<size_t>(side)), Shape{1, side})
              .value());
      g->Result("product", g->Op("MatMul", {column, row}));
    });
  }

  std::vector<proto::ShardSpec> Shards(int num_ps) const override {
    return Spread(variables_, num_ps);
  }
  std::vector<std::shared_ptr<const graph::Function>> Functions() const override {
    return functions_;
  }
  int64_t closures() const override { return options_.closures; }
  core::ClosureSpec Closure(int64_t index) const override {
    core::ClosureSpec spec;
    spec.plan = static_cast<PlanId>(1 + PlanOf(index));
    spec.steps = index % 3 == 0 ? options_.steps : 1;
    spec.seed = static_cast<uint64_t>(index);
    if (options_.functions == 0 && spec.plan == 1 + kProduct) {
      const int64_t rows =
          options_.large_arguments.count(index) > 0 ? AddOnesOptions::kLargeArgument : 128;
      spec.steps = 1;
      spec.arguments = {
          Tensor::FromVector<float>(std::vector<float>(static_cast<size_t>(rows)), Shape{rows, 1})
              .value()};
    }
    return spec;
  }

  std::vector<RowWrite> WritesBefore(int64_t closure) const override {
    if (options_.write_every == 0 || closure % options_.write_every != 0) return {};
    const float value = static_cast<float>(WrittenBefore(closure));
    return {{static_cast<ShardId>(1 + WrittenShard(closure)), 0,
             Tensor::FromVector<float>({value, value})}};
  }

  std::string Check(const FinalState& state) const override {
    std::vector<int64_t> wanted(shards_.size()), applied(shards_.size());
    // Of closures that ended early: updates and updated segments that may be there or not.
    std::vector<int64_t> more(shards_.size());
    for (int64_t i = 0; i < options_.closures; ++i) {
      if (options_.write_every != 0 && i % options_.write_every == 0) {
        wanted[WrittenShard(i)] = WrittenBefore(i);
      }
      if (i == options_.skipped || options_.large_arguments.count(i) > 0) continue;
      if (state.undone.count(i) > 0) continue;
      const int64_t steps = Closure(i).steps;
      if (const auto early = state.ended_early.find(i); early != state.ended_early.end()) {
        for (size_t s = 0; s < shards_.size() && early->second != Effect::kNothing; ++s) {
          more[s] += steps * Ones(PlanOf(i), s);
        }
        continue;
      }
      for (size_t s = 0; s < shards_.size(); ++s) {
        wanted[s] += steps * Ones(PlanOf(i), s);
        applied[s] += steps * Ones(PlanOf(i), s);
      }
    }
    int64_t missing = 0;
    for (size_t s = 0; s < shards_.size(); ++s) {
      const FinalShard& shard = state.shards[s];
      for (float value : shard.rows.values<float>()) {
        const auto found = static_cast<int64_t>(value);
        if (found >= wanted[s] && found <= wanted[s] + more[s]) continue;
        if (state.updates_may_be_lost && found < wanted[s]) continue;
        return absl::StrCat("shard ", shard.spec.id(), " holds ", found, ", wanted ", wanted[s],
                            more[s] > 0 ? absl::StrCat(" to ", wanted[s] + more[s]) : "");
      }
      missing += wanted[s] - static_cast<int64_t>(shard.rows.values<float>()[0]);
      // The two updates of "twice" are one segment or two.
      if (s == 0 && options_.functions == 0) continue;
      if (shard.applied >= applied[s] && shard.applied <= applied[s] + more[s]) continue;
      if (auto wrong = CheckApplied(state, shard, applied[s]); !wrong.empty()) return wrong;
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
    if (plan == kProduct) return shard == 0 ? 1 : 0;
    return shard == 0 ? plan - 1 : 0;
  }
  size_t WrittenShard(int64_t index) const {
    return static_cast<size_t>(index / options_.write_every) % shards_.size();
  }
  int64_t WrittenBefore(int64_t index) const { return 10000 * (1 + index / options_.write_every); }
  int PlanOf(int64_t index) const {
    if (options_.functions > 0) return static_cast<int>(index % options_.functions);
    if (options_.large_arguments.count(index) + options_.large_results.count(index) > 0) {
      return kProduct;
    }
    const int64_t kind = index % 8;
    return kind < 4 ? 0 : kind < 6 ? 1 : kind == 6 ? 2 : 3;
  }
  void Define(const std::string& name, absl::FunctionRef<void(graph::GraphBuilder*)> build) {
    graph::GraphBuilder builder(name, SimRegistry());
    build(&builder);
    functions_.push_back(std::make_shared<const graph::Function>(Must(builder.Finish())));
  }
  Attrs AttrsOf(size_t shard) const {
    const proto::ShardSpec& spec = variables_[static_cast<size_t>(shards_[shard].first)]
                                       ->shards[static_cast<size_t>(shards_[shard].second)];
    return {{"shard", static_cast<int64_t>(spec.id())},
            {"variable", absl::StrCat(spec.variable().name(), "/part_", spec.index())}};
  }
  static Output One(graph::GraphBuilder* g) {
    return g->Constant(Tensor::FromVector<float>({1, 1}));
  }
  Output Read(graph::GraphBuilder* g, size_t shard) const {
    Attrs attrs = AttrsOf(shard);
    attrs["dtype"] = DType::kF32;
    attrs["shape"] = Shape{2};
    return g->Op("ReadVariable", {}, std::move(attrs));
  }
  // 1, but not before `shard` was read.
  Output OneAfter(graph::GraphBuilder* g, size_t shard) const {
    return g->Op("Add", {g->Op("Mul", {Read(g, shard), g->Scalar(0)}), g->Scalar(1)});
  }
  void AddTo(graph::GraphBuilder* g, size_t shard, Output value) const {
    g->Target("AssignAddVariable", {value}, AttrsOf(shard));
  }

  static constexpr int kProduct = 4;  // the function of those that are large

  const AddOnesOptions options_;
  std::vector<std::shared_ptr<VariableInfo>> variables_;
  std::vector<std::pair<int, int>> shards_;  // variable and part, by id - 1
  std::vector<std::shared_ptr<const graph::Function>> functions_;
};

class Fit final : public Workload {
 public:
  explicit Fit(const FitOptions& options) : options_(options) {
    uint32_t last_id = 0;
    proto::OptimizerSpec optimizer = OptimizerSpec(Momentum{.learning_rate = 0.05});
    if (options.optimizer == "adam") optimizer = OptimizerSpec(Adam{.learning_rate = 0.05});
    weights_ =
        NewVariable({.name = "weights", .shape = Shape{4, 1}, .optimizer = optimizer}, &last_id);
    // Another PS takes part too.
    steps_ = NewVariable({.name = "steps", .shape = Shape{1}}, &last_id);
    FunctionBuilder f("fit", SimRegistry());
    Output x = f.Argument("x", DType::kF32, Shape{8, 4});
    Output y = f.Argument("y", DType::kF32, Shape{8, 1});
    const Variable w(weights_);
    Output product = options.on_ps ? f.MatMul(x, w) : f.MatMul(x, f.Read(w));
    Output loss = f.Mean(f.Square(f.Sub(product, y)));
    f.Minimize(loss);
    f.AssignAdd(Variable(steps_), f.Constant(Tensor::FromVector<float>({1})));
    f.Result("loss", loss);
    function_ = std::make_shared<const graph::Function>(Must(f.graph().Finish()));
  }

  std::vector<proto::ShardSpec> Shards(int num_ps) const override {
    return Spread({weights_, steps_}, num_ps);
  }
  std::vector<std::shared_ptr<const graph::Function>> Functions() const override {
    return {function_};
  }
  int64_t closures() const override { return options_.closures; }
  bool synchronous() const override { return true; }

  core::ClosureSpec Closure(int64_t index) const override {
    Random random(options_.seed * 1000003 + static_cast<uint64_t>(index));
    std::vector<float> x(32), y(8);
    for (float& v : x) v = static_cast<float>(random.Real() * 2 - 1);
    for (size_t i = 0; i < 8; ++i) {
      y[i] = 0.5f * x[4 * i] - 1.5f * x[4 * i + 1] + x[4 * i + 2] + 0.25f;
    }
    core::ClosureSpec spec;
    spec.plan = 1;
    spec.steps = options_.steps;
    spec.arguments = {Tensor::FromVector(x, Shape{8, 4}).value(),
                      Tensor::FromVector(y, Shape{8, 1}).value()};
    return spec;
  }

  std::string Check(const FinalState& state) const override {
    const Tensor wanted = RunAlone(*this).shards[0].rows;
    const Tensor& found = state.shards[0].rows;
    if (wanted.bytes() != found.bytes() ||
        std::memcmp(wanted.raw(), found.raw(), wanted.bytes()) != 0) {
      return absl::StrCat("the weights are ", found.ToString(), ", a run in one process gives ",
                          wanted.ToString());
    }
    return CheckApplied(state, options_.closures * options_.steps);
  }

 private:
  const FitOptions options_;
  std::shared_ptr<VariableInfo> weights_, steps_;
  std::shared_ptr<const graph::Function> function_;
};

}  // namespace

std::unique_ptr<Workload> NewAddOnes(const AddOnesOptions& options) {
  return std::make_unique<AddOnes>(options);
}
std::unique_ptr<Workload> NewFit(const FitOptions& options) {
  return std::make_unique<Fit>(options);
}

const graph::OpRegistry* SimRegistry() {
  static const graph::OpRegistry* const kRegistry = [] {
    auto* registry = new graph::OpRegistry;
    kernels::RegisterAllOps(registry);
    function::RegisterPsCall(registry);
    function::RegisterCopies(registry);
    return registry;
  }();
  return kRegistry;
}

}  // namespace coxswain::sim
