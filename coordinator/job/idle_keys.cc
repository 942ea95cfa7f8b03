#include "coordinator/job/idle_keys.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/job/model_kind.h"
#include "runtime/config/yaml_reader.h"
#include "runtime/data/spec_check.h"

namespace coxswain::job {
namespace {

class IdleKeys {
 public:
  explicit IdleKeys(const JobSpec& job) : job_(job) {}

  void Add(const std::string& key, const std::string& why) {
    if (job_.locations.count(key) == 0) return;  // nobody gave it
    problems_.push_back(
        absl::StrCat(job_.Where(key), ": ", key, ": it would change nothing: ", why));
  }
  absl::Status status() const {
    if (problems_.empty()) return absl::OkStatus();
    return config::ConfigurationError(absl::StrJoin(problems_, "\n"));
  }

 private:
  const JobSpec& job_;
  std::vector<std::string> problems_;
};

}  // namespace

absl::Status CheckNoIdleKeys(const JobSpec& job) {
  IdleKeys idle(job);
  const std::vector<TableUse> tables = job.model->Tables();
  for (const proto::FeatureSpec& feature : job.dataset.features()) {
    bool weights = false, embeddings = false;
    for (const TableUse& table : tables) {
      if (table.feature != feature.name()) continue;
      (table.role == TableSpec::Role::kLinear ? weights : embeddings) = true;
    }
    if (!weights || embeddings) continue;
    idle.Add(absl::StrCat("features.", feature.name(), ".dim"),
             absl::StrCat("of the feature's values a ", KindOf(*job.model).name,
                          " has a weight each, and no embedding"));
  }
  const std::string kind = KindOf(*job.model).name;
  const proto::FeatureSpec* const history = data::FindHistory(job.dataset);
  if (history != nullptr && (kind == "din" || kind == "sasrec")) {
    for (const char* key : {".dim", ".combiner"}) {
      idle.Add(
          absl::StrCat("features.", history->name(), key),
          absl::StrCat("a ", kind, " looks at each item of the history, by the embeddings of '",
                       history->history_of(), "'"));
    }
  }
  for (const TableSpec& table : job.tables) {
    const std::string path = absl::StrCat("tables.", table.name);
    if (job.locations.count(path + ".l2") == 0) continue;
    idle.Add(path + ".optimizer.l2", absl::StrCat(path, ".l2 takes its place"));
  }
  return idle.status();
}

}  // namespace coxswain::job
