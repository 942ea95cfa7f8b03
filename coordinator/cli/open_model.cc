#include "coordinator/cli/open_model.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/command_util.h"
#include "coordinator/cli/open_cluster.h"
#include "coordinator/job/check_columns.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/model/as_evaluated.h"
#include "coordinator/model/saved_manifest.h"
#include "coordinator/model/saved_model.h"
#include "coordinator/model/unreplaced.h"
#include "coxswain/cluster.h"
#include "runtime/base/status.h"

namespace coxswain::cli {

absl::StatusOr<job::JobSpec> ReadSavedJob(const std::string& directory,
                                          const std::vector<std::string>& overrides,
                                          const model::ManifestKind& kind) {
  ASSIGN_OR_RETURN(const model::SavedModelInfo info, model::ReadModelInfo(directory, kind));
  std::vector<std::string> all = info.overrides;
  all.insert(all.end(), overrides.begin(), overrides.end());
  ASSIGN_OR_RETURN(
      job::JobSpec job,
      job::ParseKeptJob(info.job_text, absl::StrCat(directory, "/job.yaml"),
                        std::filesystem::path(info.job_file).parent_path().string(), all));
  RETURN_IF_ERROR(job::CheckColumns(job));
  return job;
}

absl::StatusOr<OpenedModel> OpenModel(job::JobSpec job, const std::string& directory,
                                      const Where& where) {
  const std::string manifest = absl::StrCat(directory, "/", model::kSavedModel.file);
  const std::string identity = model::FileIdentity(manifest);
  auto trained = model::ReadLearned(directory, &job.dataset);
  if (!trained.ok()) return AsConfiguration(trained.status());
  const predict::OpenCluster elsewhere = OpenerOf(where);
  if (elsewhere != nullptr) job = model::AsEvaluated(std::move(job));
  ASSIGN_OR_RETURN(Cluster cluster,
                   elsewhere == nullptr ? Cluster::InProcess(1, 1) : elsewhere(job));
  auto runner = std::make_unique<runner::JobRunner>(cluster, std::move(job), runner::RunEvents{});
  RETURN_IF_ERROR(runner->Prepare());
  const absl::Status loaded = model::LoadVariables(directory, runner->strategy());
  // Reading the data may take minutes: what the model learned of it and its weights are of one
  // version, or of none.
  if (model::FileIdentity(manifest) != identity) return model::ReplacedError(directory);
  RETURN_IF_ERROR(loaded);
  return OpenedModel{std::move(runner), *trained};
}

}  // namespace coxswain::cli
