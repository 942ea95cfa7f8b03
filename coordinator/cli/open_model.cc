#include "coordinator/cli/open_model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/command_util.h"
#include "coordinator/cli/open_cluster.h"
#include "coordinator/cli/read_as_data.h"
#include "coordinator/job/check_columns.h"
#include "coordinator/model/as_evaluated.h"
#include "coordinator/model/saved_inputs.h"
#include "coordinator/model/saved_manifest.h"
#include "coordinator/model/saved_model.h"
#include "coordinator/model/saved_reader.h"
#include "coordinator/model/unreplaced.h"
#include "coxswain/cluster.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/env/file_system.h"

namespace coxswain::cli {

namespace {

absl::StatusOr<job::JobSpec> ReadSavedJob(const std::string& directory,
                                          const std::vector<std::string>& overrides,
                                          const model::ManifestKind& kind) {
  ASSIGN_OR_RETURN(job::JobSpec job, model::ReadKeptJob(directory, kind, overrides));
  RETURN_IF_ERROR(CheckCacheNotReadAsData(job));
  RETURN_IF_ERROR(job::CheckColumns(job));
  return job;
}

absl::Status LoadSaved(const SavedFlags& from, const std::string& inputs,
                       ParameterServerStrategy* strategy) {
  ASSIGN_OR_RETURN(const model::SavedSource source, OpenSaved(from));
  if (source.is_checkpoint()) {
    ASSIGN_OR_RETURN(const checkpoint::Manifest manifest,
                     checkpoint::ReadManifest(env::NewRealFileSystem().get(), source.path()));
    RETURN_IF_ERROR(model::CheckInputsFit(inputs, manifest, source.path()));
  }
  if (!from.verified) RETURN_IF_ERROR(model::VerifySource(source));
  return model::LoadVariables(source, strategy);
}

}  // namespace

absl::StatusOr<job::JobSpec> ReadEvaluatedJob(const std::string& file, const std::string& directory,
                                              const std::vector<std::string>& overrides,
                                              const model::ManifestKind& kind) {
  ASSIGN_OR_RETURN(job::JobSpec job, file.empty() ? ReadSavedJob(directory, overrides, kind)
                                                  : ReadJob(file, overrides));
  const bool wants_gpus = job.train.device == DeviceChoice::kGpu;
  if (wants_gpus && !IsGivenBy(overrides, job, "train.device")) {
    job.train.device = DeviceChoice::kAuto;
  }
  return job;
}

absl::StatusOr<OpenedModel> OpenModel(job::JobSpec job, const SavedFlags& from,
                                      const Where& where) {
  const std::string inputs = KeptIn(from);
  const std::string manifest = absl::StrCat(inputs, "/", KeptAs(from).file);
  const std::string identity = model::FileIdentity(manifest);
  auto trained = model::ReadLearned(inputs, &job.dataset);
  if (!trained.ok()) return AsConfiguration(trained.status());
  const predict::OpenCluster elsewhere = OpenerOf(where);
  // A checkpoint's tables may be larger than what is evaluated of them: without slots.
  if (elsewhere != nullptr || from.model_dir.empty()) job = model::AsEvaluated(std::move(job));
  model::KeepTablesOnHost(&job);
  ASSIGN_OR_RETURN(Cluster cluster,
                   elsewhere == nullptr ? Cluster::InProcess(1, 1) : elsewhere(job));
  auto runner = std::make_unique<runner::JobRunner>(cluster, std::move(job), runner::RunEvents{});
  RETURN_IF_ERROR(AsUsersMistake(runner->Prepare()));
  const absl::Status loaded = ReadSaved(from, model::Verify::kBytes, [&](const SavedFlags& one) {
    return LoadSaved(one, inputs, runner->strategy());
  });
  // Reading the data may take minutes: what the model learned of it and its weights are of one
  // version, or of none.
  if (model::FileIdentity(manifest) != identity) return model::ReplacedError(inputs);
  RETURN_IF_ERROR(AsUsersMistake(loaded));
  return OpenedModel{std::move(runner), *trained};
}

}  // namespace coxswain::cli
