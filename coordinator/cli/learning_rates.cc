#include "coordinator/cli/learning_rates.h"

#include <algorithm>
#include <utility>

#include "coordinator/model/visits.h"
#include "kernels/optimizers/optimizer_info.h"
#include "kernels/optimizers/optimizer_spec.h"

namespace coxswain::cli {
namespace {

constexpr char kRate[] = "learning_rate";

double RateOf(const proto::OptimizerSpec& spec) {
  if (const auto given = kernels::FindParameter(spec, kRate)) return *given;
  const kernels::OptimizerInfo* const kind = kernels::FindOptimizer(spec.kind());
  if (kind == nullptr) return 0;
  for (const kernels::OptimizerInfo::Parameter& parameter : kind->parameters) {
    if (parameter.name == std::string(kRate)) return parameter.fallback;
  }
  return 0;
}

bool SameRate(const proto::OptimizerSpec& a, const proto::OptimizerSpec& b) {
  return RateOf(a) == RateOf(b) &&
         a.schedule().SerializeAsString() == b.schedule().SerializeAsString();
}

}  // namespace

std::vector<NamedRate> NamedRates(
    const std::vector<std::shared_ptr<const VariableInfo>>& variables) {
  std::vector<NamedRate> rates;
  std::vector<const VariableInfo*> dense;
  const auto add = [&rates](const std::string& name, const proto::OptimizerSpec& spec) {
    auto schedule = kernels::LearningRateSchedule::Create(spec.schedule());
    if (schedule.ok()) rates.push_back({name, RateOf(spec), *std::move(schedule)});
  };
  for (const auto& variable : variables) {
    if (model::IsInternal(*variable) || variable->optimizer.kind().empty()) continue;
    if (variable->table) {
      add(variable->name, variable->optimizer);
    } else {
      dense.push_back(variable.get());
    }
  }
  const bool one = std::all_of(dense.begin(), dense.end(), [&](const VariableInfo* variable) {
    return SameRate(variable->optimizer, dense[0]->optimizer);
  });
  if (one && !dense.empty()) dense.resize(1);
  for (const VariableInfo* variable : dense) {
    add(one ? "dense" : variable->name, variable->optimizer);
  }
  return rates;
}

}  // namespace coxswain::cli
