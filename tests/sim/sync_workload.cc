// Synchronous steps: the state at the end must be, to the bit, that of steps whose gradients a
// naive reference sums and applies one after the other in one process. First the reference's parts
// (Recorder, SumOf), then the workload.
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coxswain/function_builder.h"
#include "ps_server/shard_store.h"
#include "runtime/function/executor.h"
#include "runtime/graph/builder.h"
#include "tests/sim/workload_parts.h"

namespace coxswain::sim {
namespace {

using graph::Update;

// What a closure would change. Reads see the store as it is.
class Recorder final : public graph::VariableAccess {
 public:
  explicit Recorder(ps::ShardStore* store) : reads_(store) {}
  absl::StatusOr<Tensor> Read(ShardId shard) override { return reads_.Read(shard); }
  absl::StatusOr<Tensor> Gather(ShardId shard, const Tensor& ids) override {
    return reads_.Gather(shard, ids);
  }
  absl::Status Stage(Update update) override {
    updates_[update.shard].push_back(std::move(update));
    return absl::OkStatus();
  }
  const std::map<ShardId, std::vector<Update>>& updates() const { return updates_; }

 private:
  ps::SegmentTransaction reads_;
  std::map<ShardId, std::vector<Update>> updates_;
};

// Gradients of f32, each with its divisor, row by row.
Update SumOf(const std::vector<const Update*>& updates, float divisor) {
  Update sum = *updates[0];
  std::vector<int64_t> ids;
  std::vector<std::vector<float>> rows;
  for (const Update* update : updates) {
    const bool dense = update->kind == Update::Kind::kDense;
    const int64_t count = dense ? 1 : update->ids.num_elements();
    const int64_t width = count == 0 ? 0 : update->values.num_elements() / count;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t id = dense ? 0 : update->ids.data<int64_t>()[i];
      const float* from = update->values.data<float>() + i * width;
      size_t at = 0;
      while (at < ids.size() && ids[at] != id) ++at;
      if (at == ids.size()) {
        ids.push_back(id);
        rows.emplace_back(from, from + width);
        continue;
      }
      for (int64_t e = 0; e < width; ++e) rows[at][static_cast<size_t>(e)] += from[e];
    }
  }
  std::vector<float> all;
  for (const auto& row : rows) {
    for (const float value : row) all.push_back(divisor == 1 ? value : value / divisor);
  }
  Shape shape = updates[0]->values.shape();
  if (sum.kind == Update::Kind::kSparse) {
    Shape rows_shape{static_cast<int64_t>(ids.size())};
    for (int d = 1; d < shape.rank(); ++d) rows_shape.Append(shape.dim(d));
    shape = rows_shape;
    sum.ids = Tensor::FromVector(ids);
  }
  sum.values = Tensor::FromVector(all, shape).value();
  return sum;
}

class SyncFit final : public Workload {
 public:
  explicit SyncFit(const SyncFitOptions& options) : options_(options) {
    uint32_t last_id = 0;
    weights_ = NewVariable(
        {.name = "weights", .shape = Shape{4, 1}, .optimizer = options.optimizer}, &last_id);
    VariableChoice table{.name = "rows",
                         .shape = Shape{options.hash ? kUnknownDim : kIds, 4},
                         .table = true,
                         .optimizer = options.table_optimizer,
                         .initializer = NormalInit(0.5, 3),
                         .shards = options.shards};
    if (options.hash) table.hash.emplace().set_min_count(2);
    table_ = NewVariable(table, &last_id);
    count_ = NewVariable({.name = "count", .shape = Shape{1}}, &last_id);
    DefineFit();
    DefineSmall();
    MakeSteps();
  }

  std::vector<proto::ShardSpec> Shards(int num_ps) const override {
    return Spread({weights_, table_, count_}, num_ps);
  }
  std::vector<std::shared_ptr<const graph::Function>> Functions() const override {
    return functions_;
  }
  int64_t closures() const override { return static_cast<int64_t>(step_of_.size()); }
  int64_t StepSize(int64_t index) const override {
    const Step& step = steps_[step_of_[static_cast<size_t>(index)]];
    return step.begin == index ? step.size : 0;
  }
  bool StepsAreAveraged() const override { return options_.mean; }
  bool StepsAreOfSingles() const override { return options_.each; }

  core::ClosureSpec Closure(int64_t index) const override {
    Random random(options_.seed * 1000003 + static_cast<uint64_t>(index));
    const int64_t n = 6;
    std::vector<int64_t> ids;
    std::vector<float> y;
    for (int64_t i = 0; i < n; ++i) {
      // Few come often, so that closures of a step have rows in common.
      ids.push_back(random.Chance(0.6) ? random.Below(8) : random.Below(kIds));
      y.push_back(static_cast<float>(random.Real() * 2 - 1));
    }
    core::ClosureSpec spec;
    spec.plan = static_cast<PlanId>(1 + steps_[step_of_[static_cast<size_t>(index)]].function);
    if (spec.plan == 1) {
      spec.arguments = {Tensor::FromVector(ids), Tensor::FromVector(y, Shape{n, 1}).value()};
    } else {
      y.resize(4);
      spec.arguments = {Tensor::FromVector(y, Shape{1, 4}).value()};
    }
    return spec;
  }

  std::string Check(const FinalState& state) const override {
    for (const Step& step : steps_) {
      const int64_t ended = EndedOf(step, state);
      if (ended != 0 && ended != step.size) {
        return absl::StrCat(ended, " of the step of ", step.size, " closures from ", step.begin,
                            " on ended early");
      }
    }
    const FinalState wanted = Reference(state);
    for (size_t s = 0; s < wanted.shards.size(); ++s) {
      const FinalShard& found = state.shards[s];
      if (found.applied != wanted.shards[s].applied) {
        return absl::StrCat("shard ", found.spec.id(), " has applied ", found.applied,
                            " updates, wanted ", wanted.shards[s].applied);
      }
      if (RowsOf(found) == RowsOf(wanted.shards[s])) continue;
      return absl::StrCat("shard ", found.spec.id(), " of '", found.spec.variable().name(),
                          "' holds ", found.rows.ToString(), ", steps one after the other give ",
                          wanted.shards[s].rows.ToString());
    }
    return "";
  }

 private:
  static constexpr int64_t kIds = 60;
  struct Step {
    int64_t begin = 0, size = 0;
    size_t function = 0;
  };

  void DefineFit() {
    FunctionBuilder f("fit", SimRegistry());
    const Output ids = f.Argument("ids", DType::kI64, Shape{-1});
    const Output y = f.Argument("y", DType::kF32, Shape{-1, 1});
    const Output rows = f.Lookup(EmbeddingTable(table_), ids);
    const Output loss = f.Mean(f.Square(f.Sub(f.MatMul(rows, f.Read(Variable(weights_))), y)));
    f.Minimize(loss);
    f.AssignAdd(Variable(count_), f.Constant(Tensor::FromVector<float>({1})));
    f.Result("loss", loss);
    functions_.push_back(std::make_shared<const graph::Function>(Must(f.graph().Finish())));
  }

  // Of fewer shards, so that steps of the one and the other meet only in some lanes.
  void DefineSmall() {
    FunctionBuilder f("small", SimRegistry());
    const Output x = f.Argument("x", DType::kF32, Shape{1, 4});
    const Output loss = f.Mean(f.Square(f.MatMul(x, f.Read(Variable(weights_)))));
    f.Minimize(loss);
    f.Result("loss", loss);
    functions_.push_back(std::make_shared<const graph::Function>(Must(f.graph().Finish())));
  }

  void MakeSteps() {
    Random random(options_.seed);
    for (int64_t s = 0; s < options_.steps; ++s) {
      Step step;
      step.begin = closures();
      step.size = random.Chance(0.2) ? random.Between(1, options_.replicas) : options_.replicas;
      step.function = random.Chance(0.15) ? 1 : 0;
      if (options_.alike) step = {closures(), options_.replicas, 0};
      step_of_.insert(step_of_.end(), static_cast<size_t>(step.size), steps_.size());
      steps_.push_back(step);
    }
  }

  // Of its closures, those that were cancelled or whose deadlines passed.
  static int64_t EndedOf(const Step& step, const FinalState& state) {
    const auto& ended = state.ended_early;
    return std::distance(ended.lower_bound(step.begin), ended.lower_bound(step.begin + step.size));
  }

  // Without the steps that ended early in `state`.
  FinalState Reference(const FinalState& of) const {
    ps::ShardStore store;
    const std::vector<proto::ShardSpec> shards = Shards(1);
    for (const proto::ShardSpec& shard : shards) COX_CHECK(store.Add(shard).ok());
    std::vector<std::shared_ptr<const function::CompiledFunction>> compiled;
    for (const auto& function : functions_) {
      compiled.push_back(Must(function::CompiledFunction::Compile(*function)));
    }
    const auto pool = env::NewInlinePool();
    for (const Step& step : steps_) {
      if (EndedOf(step, of) > 0) continue;
      std::deque<Recorder> closures;
      for (int64_t i = 0; i < step.size; ++i) {
        Recorder& recorder = closures.emplace_back(&store);
        function::RunOptions run;
        run.pool = pool.get();
        run.variables = &recorder;
        Must(compiled[step.function]->Run(Closure(step.begin + i).arguments, run));
      }
      if (options_.each) {
        ApplySingles(step, closures, &store);
      } else {
        ApplyStep(step, closures, &store);
      }
    }
    FinalState state;
    for (const proto::ShardSpec& spec : shards) {
      const ps::Shard* shard = Must(store.Get(spec.id()));
      FinalShard& final = state.shards.emplace_back();
      final.spec = spec;
      final.applied = shard->applied();
      if (shard->hash() == nullptr) {
        final.rows = Must(shard->ReadRows(0, shard->rows()));
      } else {
        auto read = Must(shard->ReadIds(0, shard->rows()));
        final.rows = std::move(read.rows);
        final.ids = std::move(read.ids);
      }
    }
    return state;
  }

  // Nothing of these variables and tables depends on a time, or is left to chance.
  static ps::ClosureStep StepOf(int64_t closure) {
    return {.closure = static_cast<ClosureId>(closure + 1), .step = 0, .seconds = 0, .seed = 0};
  }

  static void ApplySingles(const Step& step, const std::deque<Recorder>& closures,
                           ps::ShardStore* store) {
    for (size_t i = 0; i < closures.size(); ++i) {
      ps::SegmentTransaction transaction(store);
      for (const auto& [shard, updates] : closures[i].updates()) {
        for (const Update& update : updates) COX_CHECK(transaction.Stage(update).ok());
      }
      transaction.Commit(StepOf(step.begin + static_cast<int64_t>(i)));
    }
  }

  void ApplyStep(const Step& step, const std::deque<Recorder>& closures,
                 ps::ShardStore* store) const {
    ps::SegmentTransaction transaction(store);
    for (const auto& [shard, of_first] : closures[0].updates()) {
      for (size_t u = 0; u < of_first.size(); ++u) {
        std::vector<const Update*> updates;
        for (const Recorder& closure : closures) updates.push_back(&closure.updates().at(shard)[u]);
        const Update::Kind kind = of_first[u].kind;
        std::vector<Update> staged;
        if (kind == Update::Kind::kDense || kind == Update::Kind::kSparse) {
          staged.push_back(SumOf(updates, options_.mean ? static_cast<float>(step.size) : 1));
        } else {
          for (const Update* update : updates) staged.push_back(*update);
        }
        for (Update& update : staged) COX_CHECK(transaction.Stage(std::move(update)).ok());
      }
    }
    transaction.Commit(StepOf(step.begin));
  }

  static std::map<int64_t, std::string> RowsOf(const FinalShard& shard) {
    std::map<int64_t, std::string> rows;
    const int64_t count = shard.rows.dim(0);
    const size_t bytes = count == 0 ? 0 : shard.rows.bytes() / static_cast<size_t>(count);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t id = shard.spec.variable().has_hash() ? shard.ids.data<int64_t>()[i] : i;
      rows[id] = std::string(
          static_cast<const char*>(shard.rows.raw()) + static_cast<size_t>(i) * bytes, bytes);
    }
    return rows;
  }

  const SyncFitOptions options_;
  std::shared_ptr<VariableInfo> weights_, table_, count_;
  std::vector<std::shared_ptr<const graph::Function>> functions_;
  std::vector<Step> steps_;
  std::vector<size_t> step_of_;  // by closure
};

}  // namespace

std::unique_ptr<Workload> NewSyncFit(const SyncFitOptions& options) {
  return std::make_unique<SyncFit>(options);
}

}  // namespace coxswain::sim
