// Closures that take a number from a counter and mark the row of this number: each row is marked
// once when no number is given twice and each closure that is tried again gets the one that it had,
// or those that it marked go back with the counter.
#include "absl/strings/str_cat.h"
#include "coordinator/api/variable_info.h"
#include "coxswain/function_builder.h"
#include "runtime/graph/builder.h"
#include "tests/sim/workload_parts.h"

namespace coxswain::sim {
namespace {

class Numbers final : public Workload {
 public:
  explicit Numbers(const NumberOptions& options) : options_(options) {
    uint32_t last_id = 0;
    for (int v = 0; v <= options.tables; ++v) {
      variables_.push_back(
          v == options.counter
              ? NewVariable({.name = "counter", .shape = Shape{1}, .dtype = DType::kI64}, &last_id)
              : NewVariable(
                    {.name = absl::StrCat("rows", v), .shape = Shape{Count(), 1}, .table = true},
                    &last_id));
    }
    FunctionBuilder f("number", SimRegistry());
    const Output number =
        f.FetchAdd(Variable(variables_[Counter()]), f.Constant(Tensor::FromVector<int64_t>({1})));
    for (size_t v = 0; v < variables_.size(); ++v) {
      if (v == Counter()) continue;
      f.ScatterAdd(EmbeddingTable(variables_[v]), number,
                   f.Constant(Tensor::FromVector<float>({1}, Shape{1, 1}).value()));
    }
    f.Result("number", number);
    function_ = std::make_shared<const graph::Function>(Must(f.graph().Finish()));
  }

  std::vector<proto::ShardSpec> Shards(int num_ps) const override {
    return Spread(variables_, num_ps);
  }
  std::vector<std::shared_ptr<const graph::Function>> Functions() const override {
    return {function_};
  }
  int64_t closures() const override { return options_.closures; }
  core::ClosureSpec Closure(int64_t) const override {
    core::ClosureSpec spec;
    spec.plan = 1;
    spec.steps = options_.steps;
    return spec;
  }

  std::string Check(const FinalState& state) const override {
    const int64_t counted = state.shards[Counter()].rows.values<int64_t>()[0];
    if (counted != Count()) return absl::StrCat("counted ", counted, ", wanted ", Count());
    for (size_t v = 0; v < variables_.size(); ++v) {
      if (v == Counter()) continue;
      const auto rows = state.shards[v].rows.values<float>();
      for (size_t number = 0; number < rows.size(); ++number) {
        if (rows[number] == 1) continue;
        return absl::StrCat("number ", number, " was used ", rows[number], " times in table ", v);
      }
    }
    return CheckApplied(state, Count());
  }

 private:
  size_t Counter() const { return static_cast<size_t>(options_.counter); }
  int64_t Count() const { return options_.closures * options_.steps; }

  const NumberOptions options_;
  std::vector<std::shared_ptr<VariableInfo>> variables_;
  std::shared_ptr<const graph::Function> function_;
};

}  // namespace

std::unique_ptr<Workload> NewNumbers(const NumberOptions& options) {
  return std::make_unique<Numbers>(options);
}

}  // namespace coxswain::sim
