#include "coordinator/cli/open_model.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
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
#include "coordinator/model/saved_side_tables.h"
#include "coordinator/model/unreplaced.h"
#include "coxswain/cluster.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/env/file_system.h"

namespace coxswain::cli {

namespace {

// Whether the command line says which tables are joined: then all of them are those of the job, as
// their places in its list need not be those that the model has them under.
bool NamesTables(const std::vector<std::string>& overrides) {
  return absl::c_any_of(overrides, [](const std::string& set) {
    const std::string key = set.substr(0, set.find('='));
    return key == "dataset" || key == "dataset.join" || absl::StartsWith(key, "dataset.join.");
  });
}

absl::StatusOr<EvaluatedJob> ReadSavedJob(const std::string& directory,
                                          const std::vector<std::string>& overrides,
                                          const model::ManifestKind& kind) {
  EvaluatedJob evaluated;
  ASSIGN_OR_RETURN(evaluated.job, model::ReadKeptJob(directory, kind, overrides));
  evaluated.joins_kept_tables = !NamesTables(overrides);
  RETURN_IF_ERROR(CheckCacheNotReadAsData(evaluated.job));
  // The job's own tables may be gone. Those that are kept of a job that follows come and go.
  const absl::Status checked = model::ReadUnreplaced(directory, kind.file, [&]() -> absl::Status {
    job::JobSpec with_tables = evaluated.job;
    if (evaluated.joins_kept_tables) {
      RETURN_IF_ERROR(model::JoinKeptSideTables(directory, kind, "", &with_tables.dataset));
    }
    return job::CheckColumns(with_tables);
  });
  RETURN_IF_ERROR(checked);
  return evaluated;
}

// The version of a checkpoint's joined tables.
absl::StatusOr<std::string> SideTablesOf(const SavedFlags& from) {
  ASSIGN_OR_RETURN(const model::SavedSource source, OpenSaved(from));
  ASSIGN_OR_RETURN(const checkpoint::Manifest manifest,
                   checkpoint::ReadManifest(env::NewRealFileSystem().get(), source.path()));
  return model::SideTablesOf(manifest);
}

// Whether each checkpoint there has joined tables of its own, as those of a job that follows.
bool HasSeveralTables(const SavedFlags& from) {
  const auto manifest = model::ReadModelManifest(KeptIn(from), KeptAs(from));
  return manifest.ok() && !model::SideTablesOf(*manifest).empty();
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

// `side_tables`: the version of those that are kept.
absl::StatusOr<OpenedModel> OpenWith(const std::string& side_tables, EvaluatedJob evaluated,
                                     const SavedFlags& from, const Where& where) {
  job::JobSpec& job = evaluated.job;
  const std::string inputs = KeptIn(from);
  const std::string manifest = absl::StrCat(inputs, "/", KeptAs(from).file);
  const std::string identity = model::FileIdentity(manifest);
  auto trained = model::ReadLearned(inputs, &job.dataset);
  if (absl::IsDataLoss(trained.status())) return trained.status();
  if (!trained.ok()) return AsConfiguration(trained.status());
  if (evaluated.joins_kept_tables) {
    RETURN_IF_ERROR(
        AsUsersMistake(model::JoinKeptSideTables(inputs, KeptAs(from), side_tables, &job.dataset)));
  }
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

}  // namespace

absl::StatusOr<EvaluatedJob> ReadEvaluatedJob(const std::string& file, const std::string& directory,
                                              const std::vector<std::string>& overrides,
                                              const model::ManifestKind& kind) {
  EvaluatedJob evaluated;
  if (file.empty()) {
    ASSIGN_OR_RETURN(evaluated, ReadSavedJob(directory, overrides, kind));
  } else {
    ASSIGN_OR_RETURN(evaluated.job, ReadJob(file, overrides, job::JobUse::kEvaluation));
  }
  job::JobSpec& job = evaluated.job;
  const bool wants_gpus = job.train.device == DeviceChoice::kGpu;
  if (wants_gpus && !IsGivenBy(overrides, job, "train.device")) {
    job.train.device = DeviceChoice::kAuto;
  }
  return evaluated;
}

absl::StatusOr<OpenedModel> OpenModel(EvaluatedJob evaluated, const SavedFlags& from,
                                      const Where& where) {
  if (!evaluated.joins_kept_tables || !HasSeveralTables(from)) {
    return OpenWith("", std::move(evaluated), from, where);
  }
  // What rows are depends on the checkpoint, so that one is chosen before they are read.
  return ReadSaved(from, model::Verify::kBytes,
                   [&](const SavedFlags& one) -> absl::StatusOr<OpenedModel> {
                     ASSIGN_OR_RETURN(const std::string side_tables, SideTablesOf(one));
                     return OpenWith(side_tables, evaluated, one, where);
                   });
}

}  // namespace coxswain::cli
