#include "coordinator/job/unused_features.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "coordinator/job/model_kind.h"

namespace coxswain::job {

std::vector<std::string> UnusedFeatures(const JobSpec& job) {
  const std::string keys = job.model->Options();
  const auto named = [&](const std::string& name) {
    // A name within another one counts as well: better no word than a wrong one.
    if (absl::StrContains(keys, name)) return true;
    if (name == job.dataset.label().feature() || name == job.evaluate.group) return true;
    const std::vector<std::string>& slices = job.evaluate.slices;
    if (std::find(slices.begin(), slices.end(), name) != slices.end()) return true;
    // That of a text is the model's though no key names it.
    const auto is_of_name = [&](const TableSpec& table) { return table.feature == name; };
    if (std::any_of(job.tables.begin(), job.tables.end(), is_of_name)) return true;
    const auto& all = job.dataset.features();
    return std::any_of(all.begin(), all.end(), [&](const proto::FeatureSpec& other) {
      const auto& parts = other.crossed();
      return other.history_of() == name ||
             std::find(parts.begin(), parts.end(), name) != parts.end();
    });
  };
  std::vector<std::string> unused;
  for (const proto::FeatureSpec& feature : job.dataset.features()) {
    if (!named(feature.name())) unused.push_back(feature.name());
  }
  return unused;
}

}  // namespace coxswain::job
