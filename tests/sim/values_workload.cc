// Closures that look up in per-worker values which row they mark: each row is marked once a round
// when every worker holds the same values, in each of its lives.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "coordinator/api/variable_info.h"
#include "coxswain/function_builder.h"
#include "runtime/graph/builder.h"
#include "tests/sim/workload_parts.h"

namespace coxswain::sim {
namespace {

class LookUps final : public Workload {
 public:
  explicit LookUps(const LookUpOptions& options) : options_(options) {
    uint32_t last_id = 0;
    rows_ = NewVariable({.name = "rows", .shape = Shape{options.rows, 1}, .table = true}, &last_id);
    std::vector<int64_t> order(static_cast<size_t>(options.rows));
    std::iota(order.begin(), order.end(), 0);
    Random random(options.seed);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
    order_ = Tensor::FromVector<int64_t>(order);

    FunctionBuilder make("make", SimRegistry());
    const Output all = make.Argument("order", DType::kI64, Shape{options.rows});
    make.Result("order", make.Op("Add", {all, all}));
    make.Result("half", make.Op("Identity", {all}));
    make_ = std::make_shared<const graph::Function>(Must(make.graph().Finish()));

    FunctionBuilder f("look_up", SimRegistry());
    const Output place = f.Argument("place", DType::kI64, Shape{1});
    const Output held = f.Argument("held", DType::kI64, Shape{options.rows});
    f.ScatterAdd(EmbeddingTable(rows_), f.Gather(held, place),
                 f.Constant(Tensor::FromVector<float>({1}, Shape{1, 1}).value()));
    function_ = std::make_shared<const graph::Function>(Must(f.graph().Finish()));
  }

  std::vector<proto::ShardSpec> Shards(int num_ps) const override {
    return Spread({rows_}, num_ps);
  }
  std::vector<std::shared_ptr<const graph::Function>> Functions() const override {
    return {function_};
  }
  std::vector<Held> Values() const override { return {{make_, {order_}}}; }
  proto::ArgumentSource Source(size_t, size_t argument) const override {
    proto::ArgumentSource source;
    if (argument == 1) {
      source.set_values(1);
      source.set_result(1);
    }
    return source;
  }
  int64_t closures() const override { return options_.rows * options_.rounds; }
  core::ClosureSpec Closure(int64_t index) const override {
    core::ClosureSpec spec;
    spec.plan = 1;
    spec.arguments.push_back(Tensor::FromVector<int64_t>({index % options_.rows}));
    return spec;
  }

  std::string Check(const FinalState& state) const override {
    const auto rows = state.shards[0].rows.values<float>();
    for (size_t r = 0; r < rows.size(); ++r) {
      if (rows[r] == static_cast<float>(options_.rounds)) continue;
      return absl::StrCat("row ", r, " was marked ", rows[r], " times, wanted ", options_.rounds);
    }
    return CheckApplied(state, closures());
  }

 private:
  const LookUpOptions options_;
  std::shared_ptr<VariableInfo> rows_;
  Tensor order_;
  std::shared_ptr<const graph::Function> make_, function_;
};

}  // namespace

std::unique_ptr<Workload> NewLookUps(const LookUpOptions& options) {
  return std::make_unique<LookUps>(options);
}

}  // namespace coxswain::sim
