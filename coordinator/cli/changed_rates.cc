#include "coordinator/cli/changed_rates.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/optimizers/optimizer_spec.h"

namespace coxswain::cli {
namespace {

std::optional<double> RateOf(const proto::OptimizerSpec& optimizer) {
  return kernels::FindParameter(optimizer, "learning_rate");
}

// The optimizer that a table was saved with; null where the checkpoint does not have it.
const proto::OptimizerSpec* SavedWith(const checkpoint::Manifest& checkpoint,
                                      const std::string& table) {
  for (const proto::SavedShard& saved : checkpoint.shards) {
    const proto::VariableSpec& variable = saved.shard().variable();
    if (variable.name() == table && variable.table()) return &variable.optimizer();
  }
  return nullptr;
}

}  // namespace

std::string ChangedRates(const checkpoint::Manifest& checkpoint, const job::JobSpec& job) {
  constexpr size_t kMostNames = 3;
  std::map<std::pair<double, double>, std::vector<std::string>> tables;  // by both rates
  for (const job::TableSpec& table : job.tables) {
    const proto::OptimizerSpec* const saved = SavedWith(checkpoint, table.name);
    if (saved == nullptr || !table.trainable) continue;
    const std::optional<double> was = RateOf(*saved), is = RateOf(table.optimizer);
    if (was && is && *was != *is) tables[{*was, *is}].push_back(table.name);
  }
  std::vector<std::string> changes;
  for (auto& [rates, names] : tables) {
    const size_t more = names.size() > kMostNames ? names.size() - kMostNames : 0;
    names.resize(names.size() - more);
    changes.push_back(absl::StrCat(absl::StrJoin(names, ", "),
                                   more > 0 ? absl::StrCat(" and ", more, " more") : "", ": ",
                                   rates.first, ", now ", rates.second));
  }
  return absl::StrJoin(changes, "; ");
}

}  // namespace coxswain::cli
