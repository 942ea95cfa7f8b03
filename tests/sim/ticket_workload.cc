// Steps that do without their slowest closures, or that are applied in any order: each ticket
// counts once in each table, each table takes each step once, and all tables take the same tickets
// together. The learning rate of a step tells which one it was: n for the table's last but n - 1 of
// kMostSteps. So a row, whose gradient is -1 in one step and 0 in all others, is the rate of the
// step that had its ticket.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coxswain/function_builder.h"
#include "runtime/graph/builder.h"
#include "tests/sim/workload_parts.h"

namespace coxswain::sim {
namespace {

// A power of two: all rates are exact.
constexpr int64_t kMostSteps = 256;

// The tickets of each step of a table, by its rate.
using StepsOfTable = std::map<float, std::vector<int64_t>>;

std::string ToString(const std::vector<int64_t>& tickets) {
  return absl::StrCat("{", absl::StrJoin(tickets, ", "), "}");
}

class Tickets final : public Workload {
 public:
  explicit Tickets(const TicketOptions& options) : options_(options) {
    uint32_t last_id = 0;
    for (int t = 0; t < options.tables; ++t) {
      tables_.push_back(NewVariable(
          {.name = absl::StrCat("counts_", t),
           .shape = Shape{options.tickets, 1},
           .table = true,
           .optimizer = WithSchedule(Sgd{.learning_rate = kMostSteps}, LinearDecay(kMostSteps))},
          &last_id));
    }
    FunctionBuilder f("count", SimRegistry());
    const Output ids = f.Argument("ids", DType::kI64, Shape{-1});
    std::vector<Output> sums;
    for (const auto& table : tables_) {
      // The gradient of a row is -1.
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
    std::optional<std::vector<std::vector<int64_t>>> first;
    for (const FinalShard& shard : state.shards) {
      const std::string& table = shard.spec.variable().name();
      if (shard.applied != steps()) {
        return absl::StrCat("'", table, "' has applied ", shard.applied, " steps, wanted ",
                            steps());
      }
      StepsOfTable by_rate;
      const auto rows = shard.rows.values<float>();
      for (size_t i = 0; i < rows.size(); ++i) by_rate[rows[i]].push_back(static_cast<int64_t>(i));
      if (std::string wrong = CheckSteps(table, by_rate); !wrong.empty()) return wrong;
      std::vector<std::vector<int64_t>> taken = TakenTogether(by_rate);
      if (!first) first = taken;
      if (taken != *first) {
        return absl::StrCat("'", table, "' has taken other tickets together than '",
                            state.shards[0].spec.variable().name(), "'");
      }
    }
    return "";
  }

 private:
  int64_t steps() const { return (options_.tickets + options_.replicas - 1) / options_.replicas; }

  // Each ticket was in one step, and each step had as many as it wants. One step has what is left:
  // the last one, where they are applied in order.
  std::string CheckSteps(const std::string& table, const StepsOfTable& by_rate) const {
    const int64_t left = options_.tickets - (steps() - 1) * options_.replicas;
    int64_t smaller = 0;
    for (const auto& [rate, tickets] : by_rate) {
      const double step = kMostSteps - static_cast<double>(rate);
      if (step < 0 || step >= static_cast<double>(steps()) || step != std::floor(step)) {
        return absl::StrCat("tickets ", ToString(tickets), " count ", rate, " in '", table,
                            "', which no single step can have done");
      }
      const auto count = static_cast<int64_t>(tickets.size());
      if (count == options_.replicas) continue;
      const bool last = options_.free || step == static_cast<double>(steps() - 1);
      if (count != left || !last || ++smaller > 1) {
        return absl::StrCat("step ", step, " of '", table, "' has the tickets ", ToString(tickets),
                            ", wanted ", options_.replicas);
      }
    }
    return "";
  }
  // In the order of the steps, where that is the same everywhere, or else of the first tickets.
  std::vector<std::vector<int64_t>> TakenTogether(const StepsOfTable& by_rate) const {
    std::vector<std::vector<int64_t>> taken;
    for (const auto& [rate, tickets] : by_rate) taken.push_back(tickets);
    if (options_.free) std::sort(taken.begin(), taken.end());
    return taken;
  }

  const TicketOptions options_;
  std::vector<std::shared_ptr<VariableInfo>> tables_;
  std::shared_ptr<const graph::Function> function_;
};

}  // namespace

std::unique_ptr<Workload> NewTickets(const TicketOptions& options) {
  return std::make_unique<Tickets>(options);
}

}  // namespace coxswain::sim
