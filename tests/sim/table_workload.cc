// Workloads on embedding tables.
#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/api/variable_info.h"
#include "coxswain/function_builder.h"
#include "runtime/base/id_hash.h"
#include "runtime/graph/builder.h"
#include "tests/sim/workload_parts.h"

namespace coxswain::sim {
namespace {

class Visits final : public Workload {
 public:
  explicit Visits(const VisitOptions& options) : options_(options) {
    VariableChoice table{.name = "visits",
                         .shape = Shape{hash() ? kUnknownDim : options.examples, 1},
                         .table = true,
                         .optimizer = OptimizerSpec(Sgd{.learning_rate = 1}),
                         .shards = options.shards};
    if (hash()) table.hash.emplace().set_min_count(options.min_count);
    uint32_t last_id = 0;
    table_ = NewVariable(table, &last_id);
    FunctionBuilder f("visit", SimRegistry());
    Output ids = f.Argument("ids", DType::kI64, Shape{-1});
    // The gradient of each row is -1, so a step at rate 1 adds 1.
    Output loss = f.Neg(f.Sum(f.Lookup(EmbeddingTable(table_), ids)));
    f.Minimize(loss);
    f.Result("loss", loss);
    function_ = std::make_shared<const graph::Function>(Must(f.graph().Finish()));
  }

  std::vector<proto::ShardSpec> Shards(int num_ps) const override {
    return Spread({table_}, num_ps);
  }
  std::vector<std::shared_ptr<const graph::Function>> Functions() const override {
    return {function_};
  }
  int64_t closures() const override { return options_.epochs * batches(); }

  core::ClosureSpec Closure(int64_t index) const override {
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
    core::ClosureSpec spec;
    spec.plan = 1;
    spec.arguments = {Tensor::FromVector(ids)};
    if (options_.group_closures > 0) {
      spec.group = 1 + static_cast<uint64_t>(index / options_.group_closures);
    }
    return spec;
  }

  // Some rows of one shard.
  std::vector<RowWrite> WritesBefore(int64_t closure) const override {
    if (options_.write_every == 0 || hash() || closure % options_.write_every != 0) return {};
    Random random(options_.seed * 31 + static_cast<uint64_t>(closure));
    const proto::ShardSpec& shard =
        table_->shards[static_cast<size_t>(random.Below(options_.shards))];
    RowWrite write;
    write.shard = shard.id();
    write.begin = random.Below(shard.rows());
    const int64_t count = random.Between(1, shard.rows() - write.begin);
    const float value = static_cast<float>(1000 * (1 + closure / options_.write_every));
    write.rows = Tensor::FromVector<float>(std::vector<float>(static_cast<size_t>(count), value),
                                           Shape{count, 1})
                     .value();
    return {write};
  }

  std::string Check(const FinalState& state) const override {
    std::string wrong;
    const auto rows = RowsById(state, &wrong);
    if (!wrong.empty()) return wrong;
    const std::vector<int64_t> all_wanted = Wanted();
    size_t found = 0;
    for (int64_t example = 0; example < options_.examples; ++example) {
      const int64_t wanted = all_wanted[static_cast<size_t>(example)];
      const auto row = rows.find(IdOf(example));
      float visits = 0;
      if (row != rows.end()) std::memcpy(&visits, row->second.data(), sizeof(visits));
      found += row != rows.end();
      const auto whole = static_cast<int64_t>(visits);
      if (whole == wanted || (state.updates_may_be_lost && whole < wanted)) continue;
      return absl::StrCat("example ", IdOf(example), " has ", visits, " visits in its row, wanted ",
                          wanted);
    }
    if (found != rows.size()) {
      return absl::StrCat(rows.size() - found, " rows of ids that never came");
    }
    return CheckApplied(state, closures());
  }

 private:
  bool hash() const { return options_.min_count > 0; }
  // What each example's row is at the end.
  std::vector<int64_t> Wanted() const {
    const int64_t first = std::max(int64_t{1}, options_.min_count);
    std::vector<int64_t> wanted(static_cast<size_t>(options_.examples),
                                std::max(int64_t{0}, options_.epochs - first + 1));
    if (options_.write_every == 0 || hash()) return wanted;
    wanted.assign(wanted.size(), 0);
    for (int64_t c = 0; c < closures(); ++c) {
      for (const RowWrite& write : WritesBefore(c)) {
        for (int64_t r = 0; r < write.rows.dim(0); ++r) {
          const auto& shard = table_->shards[write.shard - 1];
          const int64_t id = shard.index() + (write.begin + r) * shard.count();
          wanted[static_cast<size_t>(id)] = static_cast<int64_t>(write.rows.data<float>()[r]);
        }
      }
      const Tensor ids = Closure(c).arguments[0];
      for (const int64_t id : ids.values<int64_t>()) ++wanted[static_cast<size_t>(id)];
    }
    return wanted;
  }
  int64_t batches() const { return (options_.examples + options_.batch - 1) / options_.batch; }
  int64_t IdOf(int64_t example) const {
    return hash() ? static_cast<int64_t>(HashId(example)) : example;
  }

  const VisitOptions options_;
  std::shared_ptr<VariableInfo> table_;
  std::shared_ptr<const graph::Function> function_;
};

class Marked final : public Workload {
 public:
  Marked(std::unique_ptr<Workload> workload, const MarkOptions& options)
      : workload_(std::move(workload)), options_(options) {
    const std::vector<proto::ShardSpec> others = workload_->Shards(1);
    others_ = others.size();
    uint32_t last_id = 0;
    for (const proto::ShardSpec& shard : others) last_id = std::max(last_id, shard.id());
    VariableChoice choice{.name = "marks",
                          .shape = Shape{hash() ? kUnknownDim : options.rows, 1},
                          .table = options.kind != MarkOptions::Kind::kDense,
                          .optimizer = OptimizerSpec(Sgd{.learning_rate = 1}),
                          .shards = options.shards};
    if (hash()) choice.hash.emplace();
    marks_ = NewVariable(choice, &last_id);
  }

  std::vector<proto::ShardSpec> Shards(int num_ps) const override {
    std::vector<proto::ShardSpec> shards = workload_->Shards(num_ps);
    for (const proto::ShardSpec& shard : Spread({marks_}, num_ps)) shards.push_back(shard);
    return shards;
  }
  std::vector<std::shared_ptr<const graph::Function>> Functions() const override {
    return workload_->Functions();
  }
  int64_t closures() const override { return workload_->closures(); }
  core::ClosureSpec Closure(int64_t index) const override { return workload_->Closure(index); }
  bool synchronous() const override { return workload_->synchronous(); }
  std::vector<RowWrite> WritesBefore(int64_t closure) const override {
    return workload_->WritesBefore(closure);
  }

  // Write i: some of the rows of a shard become i + 1.
  std::vector<RowWrite> WritesBeside() const override {
    std::vector<RowWrite> writes;
    Random random(options_.seed);
    for (int64_t i = 0; i < options_.writes; ++i) {
      RowWrite write;
      const auto index = static_cast<size_t>(random.Below(options_.shards));
      write.shard = marks_->shards[index].id();
      const std::vector<int64_t> ids = IdsOf(static_cast<int64_t>(index));
      const auto count = static_cast<int64_t>(ids.size());
      write.begin = random.Below(count);
      const int64_t n = random.Between(1, std::min<int64_t>(6, count - write.begin));
      write.rows =
          Tensor::FromVector<float>(
              std::vector<float>(static_cast<size_t>(n), static_cast<float>(i + 1)), Shape{n, 1})
              .value();
      if (hash()) {
        write.ids =
            Tensor::FromVector<int64_t>({ids.begin() + write.begin, ids.begin() + write.begin + n});
      }
      writes.push_back(std::move(write));
    }
    return writes;
  }

  std::string Check(const FinalState& state) const override {
    FinalState others = state, marks = state;
    others.shards.resize(others_);
    marks.shards.erase(marks.shards.begin(), marks.shards.begin() + static_cast<int64_t>(others_));
    std::map<int64_t, float> wanted;  // by id
    for (const RowWrite& write : WritesBeside()) {
      const std::vector<int64_t> ids =
          IdsOf(marks_->shards[write.shard - marks_->shards[0].id()].index());
      for (int64_t r = 0; r < write.rows.dim(0); ++r) {
        wanted[ids[static_cast<size_t>(write.begin + r)]] = write.rows.data<float>()[r];
      }
    }
    for (const FinalShard& shard : marks.shards) {
      const std::vector<int64_t> ids = IdsOf(shard.spec.index());
      for (int64_t r = 0; r < shard.rows.dim(0); ++r) {
        const int64_t id = hash() ? shard.ids.data<int64_t>()[r] : ids[static_cast<size_t>(r)];
        const auto mark = wanted.find(id);
        const float value = mark == wanted.end() ? 0 : mark->second;
        const float found = shard.rows.data<float>()[r];
        if (mark != wanted.end()) wanted.erase(mark);
        if (found == value) continue;
        return absl::StrCat("row ", id, " was marked with ", value, " last, and has ", found);
      }
    }
    if (!wanted.empty()) return absl::StrCat("row ", wanted.begin()->first, " is not there");
    return workload_->Check(others);
  }

 private:
  bool hash() const { return options_.kind == MarkOptions::Kind::kHash; }
  // Of a shard, in the order of its rows.
  std::vector<int64_t> IdsOf(int64_t index) const {
    std::vector<int64_t> ids;
    const proto::ShardSpec& shard = marks_->shards[static_cast<size_t>(index)];
    for (int64_t r = 0; !hash() && r < shard.rows(); ++r) {
      ids.push_back(shard.variable().table() ? index + r * options_.shards : shard.row_begin() + r);
    }
    for (int64_t i = 0; hash() && i < options_.rows; ++i) {
      const auto id = static_cast<int64_t>(HashId(i));
      if (HashShard(id, options_.shards) == index) ids.push_back(id);
    }
    return ids;
  }

  const std::unique_ptr<Workload> workload_;
  const MarkOptions options_;
  size_t others_ = 0;
  std::shared_ptr<VariableInfo> marks_;
};

class TableFit final : public Workload {
 public:
  explicit TableFit(const TableFitOptions& options) : options_(options) {
    uint32_t last_id = 0;
    table_ = NewVariable({.name = "rows",
                          .shape = Shape{options.hash ? kUnknownDim : options.ids, 3},
                          .table = true,
                          .hash = options.hash,
                          .dtype = options.dtype,
                          .rounding = options.rounding,
                          .wire_dtype = options.wire_dtype,
                          .optimizer = options.optimizer,
                          .initializer = NormalInit(0.3, options.seed),
                          .shards = options.shards},
                         &last_id);
    FunctionBuilder f("fit", SimRegistry());
    Output ids = f.Argument("ids", DType::kI64, Shape{-1});
    Output loss = f.Mean(f.Square(f.Sub(f.Lookup(EmbeddingTable(table_), ids), f.Scalar(1))));
    f.Minimize(loss);
    f.Result("loss", loss);
    function_ = std::make_shared<const graph::Function>(Must(f.graph().Finish()));
  }

  std::vector<proto::ShardSpec> Shards(int num_ps) const override {
    return Spread({table_}, num_ps);
  }
  std::vector<std::shared_ptr<const graph::Function>> Functions() const override {
    return {function_};
  }
  int64_t closures() const override { return options_.closures; }
  bool synchronous() const override { return true; }

  core::ClosureSpec Closure(int64_t index) const override {
    Random random(options_.seed * 1000003 + static_cast<uint64_t>(index));
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < options_.batch; ++i) {
      // The square makes small ones come more often.
      const double x = random.Real();
      const auto id = static_cast<int64_t>(x * x * static_cast<double>(options_.ids));
      ids.push_back(options_.hash ? static_cast<int64_t>(HashId(id)) : id);
    }
    core::ClosureSpec spec;
    spec.plan = 1;
    spec.steps = options_.steps;
    spec.arguments = {Tensor::FromVector(ids)};
    return spec;
  }

  std::string Check(const FinalState& state) const override {
    std::string wrong;
    const auto found = RowsById(state, &wrong), wanted = RowsById(RunAlone(*this), &wrong);
    if (!wrong.empty()) return wrong;
    for (const auto& [id, row] : wanted) {
      const auto other = found.find(id);
      if (other != found.end() && other->second == row) continue;
      return absl::StrCat("id ", id, other == found.end() ? " has no row" : " has another row",
                          ", unlike in one process; ", found.size(), " rows, wanted ",
                          wanted.size());
    }
    if (found.size() != wanted.size()) {
      return absl::StrCat(found.size(), " rows, in one process there are ", wanted.size());
    }
    return CheckApplied(state, options_.closures * options_.steps);
  }

 private:
  const TableFitOptions options_;
  std::shared_ptr<VariableInfo> table_;
  std::shared_ptr<const graph::Function> function_;
};

}  // namespace

std::unique_ptr<Workload> NewVisits(const VisitOptions& options) {
  return std::make_unique<Visits>(options);
}
std::unique_ptr<Workload> NewMarked(std::unique_ptr<Workload> workload,
                                    const MarkOptions& options) {
  return std::make_unique<Marked>(std::move(workload), options);
}
std::unique_ptr<Workload> NewTableFit(const TableFitOptions& options) {
  return std::make_unique<TableFit>(options);
}

}  // namespace coxswain::sim
