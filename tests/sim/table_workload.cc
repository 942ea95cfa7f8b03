// Workloads on embedding tables.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/api/function_builder.h"
#include "runtime/base/id_hash.h"
#include "tests/sim/workload_parts.h"

namespace coxswain::sim {
namespace {

class Visits final : public Workload {
 public:
  explicit Visits(const VisitOptions& options) : options_(options) {
    VariableChoice table{.name = "visits",
                         .shape = Shape{hash() ? kUnknownDim : options.examples, 1},
                         .table = true,
                         .optimizer = Sgd(1),
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
    function_ = std::make_shared<const Function>(Must(f.graph().Finish()));
  }

  std::vector<proto::ShardSpec> Shards(int num_ps) const override {
    return Spread({table_}, num_ps);
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
    const auto rows = RowsById(state, &wrong);
    if (!wrong.empty()) return wrong;
    const int64_t first = std::max(int64_t{1}, options_.min_count);
    const int64_t wanted = std::max(int64_t{0}, options_.epochs - first + 1);
    size_t found = 0;
    for (int64_t example = 0; example < options_.examples; ++example) {
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
  int64_t batches() const { return (options_.examples + options_.batch - 1) / options_.batch; }
  int64_t IdOf(int64_t example) const {
    return hash() ? static_cast<int64_t>(HashId(example)) : example;
  }

  const VisitOptions options_;
  std::shared_ptr<VariableInfo> table_;
  std::shared_ptr<const Function> function_;
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
    function_ = std::make_shared<const Function>(Must(f.graph().Finish()));
  }

  std::vector<proto::ShardSpec> Shards(int num_ps) const override {
    return Spread({table_}, num_ps);
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
      const auto id = static_cast<int64_t>(x * x * static_cast<double>(options_.ids));
      ids.push_back(options_.hash ? static_cast<int64_t>(HashId(id)) : id);
    }
    ClosureSpec spec;
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
  std::shared_ptr<const Function> function_;
};

}  // namespace

std::unique_ptr<Workload> NewVisits(const VisitOptions& options) {
  return std::make_unique<Visits>(options);
}
std::unique_ptr<Workload> NewTableFit(const TableFitOptions& options) {
  return std::make_unique<TableFit>(options);
}

}  // namespace coxswain::sim
