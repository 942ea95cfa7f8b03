// Steps that do without their slowest closures, or that are applied in any order: each ticket
// counts once in each table, and each table takes each step once.
#include <utility>

#include "absl/strings/str_cat.h"
#include "coxswain/function_builder.h"
#include "runtime/graph/builder.h"
#include "tests/sim/workload_parts.h"

namespace coxswain::sim {
namespace {

class Tickets final : public Workload {
 public:
  explicit Tickets(const TicketOptions& options) : options_(options) {
    uint32_t last_id = 0;
    for (int t = 0; t < options.tables; ++t) {
      tables_.push_back(NewVariable({.name = absl::StrCat("counts_", t),
                                     .shape = Shape{options.tickets, 1},
                                     .table = true,
                                     .optimizer = OptimizerSpec(Sgd{.learning_rate = 1})},
                                    &last_id));
    }
    FunctionBuilder f("count", SimRegistry());
    const Output ids = f.Argument("ids", DType::kI64, Shape{-1});
    std::vector<Output> sums;
    for (const auto& table : tables_) {
      // The gradient of a row is -1, the learning rate 1.
      sums.push_back(f.Neg(f.Sum(f.Lookup(EmbeddingTable(table), ids))));
    }
    Output loss = sums[0];
    for (size_t i = 1; i < sums.size(); ++i) loss = f.Add(loss, sums[i]);
    f.Minimize(loss);
    f.Result("loss", loss);
    function_ = std::make_shared<const graph::Function>(Must(f.graph().Finish()));
  }

  std::vector<proto::ShardSpec> Shards(int num_ps) const override {
    return Spread(tables_, num_ps);
  }
  std::vector<std::shared_ptr<const graph::Function>> Functions() const override {
    return {function_};
  }
  int64_t closures() const override { return options_.tickets; }
  std::optional<SyncStep> TicketSteps() const override {
    SyncStep step;
    step.count = options_.replicas;
    step.backup = options_.backup;
    step.free = options_.free;
    return step;
  }
  core::ClosureSpec Closure(int64_t index) const override {
    core::ClosureSpec spec;
    spec.plan = 1;
    spec.arguments = {Tensor::FromVector<int64_t>({index})};
    return spec;
  }

  std::string Check(const FinalState& state) const override {
    const int64_t replicas = options_.replicas;
    const int64_t steps = (options_.tickets + replicas - 1) / replicas;
    for (const FinalShard& shard : state.shards) {
      const std::string& table = shard.spec.variable().name();
      if (shard.applied != steps) {
        return absl::StrCat("'", table, "' has applied ", shard.applied, " steps, wanted ", steps);
      }
      const auto rows = shard.rows.values<float>();
      for (size_t i = 0; i < rows.size(); ++i) {
        if (rows[i] == 1) continue;
        return absl::StrCat("ticket ", i, " counts ", rows[i], " times in '", table, "'");
      }
    }
    return "";
  }

 private:
  const TicketOptions options_;
  std::vector<std::shared_ptr<VariableInfo>> tables_;
  std::shared_ptr<const graph::Function> function_;
};

}  // namespace

std::unique_ptr<Workload> NewTickets(const TicketOptions& options) {
  return std::make_unique<Tickets>(options);
}

}  // namespace coxswain::sim
