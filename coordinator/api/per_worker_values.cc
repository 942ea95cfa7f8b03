// Per-worker values: their creation, and functions that take them.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/api/catalog.h"
#include "coordinator/api/function_state.h"
#include "coordinator/api/per_worker_values_state.h"
#include "coordinator/api/remote_function_state.h"
#include "coordinator/api/strategy_state.h"
#include "coordinator/api/wait.h"
#include "coordinator/api/wait_reporter.h"
#include "coordinator/core/controller.h"
#include "runtime/base/status.h"

namespace coxswain {
namespace {

std::string OwnerName(uint64_t strategy) {
  return strategy == 0 ? "no strategy" : StrategyName(strategy);
}

}  // namespace

std::vector<std::string> PerWorkerValues::names() const {
  std::vector<std::string> names;
  if (state_ == nullptr) return names;
  for (const State::Result& result : state_->results) names.push_back(result.name);
  return names;
}

absl::StatusOr<PerWorkerValues> ParameterServerStrategy::CreatePerWorkerValues(
    const RemoteFunction& function, const std::vector<Tensor>& arguments) {
  const std::string who = absl::StrCat("per-worker values of '", function.name(), "'");
  if (function.strategy() != number()) {
    return absl::InvalidArgumentError(absl::StrCat(who, ": the function belongs to ",
                                                   OwnerName(function.strategy()),
                                                   ", it was given to ", StrategyName(number())));
  }
  if (function.dataset() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(who, ": wanted a function without a data set, found one that reads data set ",
                     function.dataset()));
  }
  const graph::Function& worker = function.partition().worker;
  for (const graph::Node& node : worker.graph.nodes()) {
    if (node.op != function::kPsCallOp) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        who, ": wanted a function without variables, found one that reads or updates some"));
  }
  if (!function.state_->keeps.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        who, ": wanted a function without per-worker values, found one that takes some"));
  }
  RETURN_IF_ERROR(Annotate(function.CheckCall({}, arguments), who));
  auto state = std::make_shared<PerWorkerValues::State>();
  state->id = state_->cluster.catalog()->NewValues();
  state->strategy = number();
  state->function = function.name();
  for (const graph::Function::Result& result : worker.results) {
    state->results.push_back({result.name, worker.graph.type(result.output)});
  }
  core::Controller* const controller = state_->cluster.controller();
  state->release = controller->ValuesReleaser(state->id);  // also where a worker never answers
  RETURN_IF_ERROR(WaitForStatus(
      [&](auto done) {
        controller->RegisterValues(state->id, std::make_shared<const graph::Function>(worker),
                                   arguments, std::move(done));
      },
      WaitReporter(state_->cluster).For(absl::StrCat(who, ", which workers make"))));
  PerWorkerValues values;
  values.state_ = std::move(state);
  return values;
}

Output FunctionBuilder::Value(const PerWorkerValues& values, const std::string& name) {
  const PerWorkerValues::State* const from = values.state_.get();
  const uint64_t owner = from == nullptr ? 0 : from->strategy;
  if (owner == 0 || owner != state_->strategy) {
    Fail(absl::InvalidArgumentError(absl::StrCat(
        "function '", state_->graph.function().name, "': per-worker values",
        from == nullptr ? "" : absl::StrCat(" of '", from->function, "'"), " belong to ",
        OwnerName(owner), ", they were given to ", OwnerName(state_->strategy))));
    return {};
  }
  size_t at = 0;
  const size_t count = from->results.size();
  if (!name.empty() || count > 1) {
    while (at < count && from->results[at].name != name) ++at;
  }
  if (at >= count) {
    Fail(absl::InvalidArgumentError(absl::StrCat(
        "function '", state_->graph.function().name, "': per-worker values of '", from->function,
        "' have no '", name, "'; they have: ", absl::StrJoin(values.names(), ", "))));
    return {};
  }
  const auto& [result, type] = from->results[at];
  const std::string argument = absl::StrCat(from->function, "/", from->id, "/", result);
  if (const Output found = state_->graph.FindArgument(argument); found.valid()) return found;
  const Output output = state_->graph.Argument(argument, type.dtype, type.shape);
  if (!output.valid()) return output;
  state_->sources.push_back({.values = from->id, .result = static_cast<int>(at)});
  state_->keeps.push_back(values.state_);
  return output;
}

}  // namespace coxswain
