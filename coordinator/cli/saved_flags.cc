#include "coordinator/cli/saved_flags.h"

#include <sys/resource.h>

#include <cstdio>
#include <utility>

#include "CLI/CLI.hpp"
#include "coordinator/cli/command_util.h"
#include "coordinator/cli/commands/shared_flags.h"
#include "coordinator/model/saved_inputs.h"
#include "coordinator/model/saved_model.h"

namespace coxswain::cli {
void AllowManyFiles() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

std::string KeptIn(const SavedFlags& flags) {
  return flags.model_dir.empty() ? model::InputsOf(flags.checkpoint_dir) : flags.model_dir;
}

const model::ManifestKind& KeptAs(const SavedFlags& flags) {
  return flags.model_dir.empty() ? model::kSavedInputs : model::kSavedModel;
}

std::vector<CommandInput> OriginsOf(const SavedFlags& flags) {
  const auto info = model::ReadModelInfo(KeptIn(flags), KeptAs(flags));
  if (!info.ok()) return {};
  auto job = model::ReadKeptJob(KeptIn(flags), KeptAs(flags));
  if (!job.ok()) return {{"the job file", info->job_file}};
  job->file = info->job_file;
  return InputsOf(*job);
}

void NoteOnStderr(const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); }

absl::StatusOr<model::SavedSource> OpenSaved(const SavedFlags& flags) {
  AllowManyFiles();
  if (!flags.model_dir.empty()) return model::SavedSource::OpenModel(flags.model_dir);
  return model::SavedSource::OpenCheckpoint(flags.checkpoint_dir, flags.checkpoint);
}

absl::StatusOr<std::unique_ptr<predict::Predictor>> LoadPredictor(
    const SavedFlags& flags, bool verify, const std::string& row_format,
    const predict::OpenCluster& open_cluster) {
  AllowManyFiles();
  if (!flags.model_dir.empty()) {
    return predict::Predictor::Load(
        flags.model_dir,
        {.row_format = row_format, .verify = verify, .open_cluster = open_cluster});
  }
  return ReadSaved(flags, model::Verify::kBytes, [&](const SavedFlags& one) {
    return predict::Predictor::LoadCheckpoint({.directory = one.checkpoint_dir,
                                               .number = one.checkpoint,
                                               .verified = one.verified,
                                               .row_format = row_format,
                                               .open_cluster = open_cluster});
  });
}

int ComplainOfSaved(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kPermissionDenied:
      return Complain(AsConfiguration(status));
    default:
      return Complain(status);
  }
}

void AddSavedFlags(CLI::App* command, SavedFlags* flags) {
  auto* from = command->add_option_group("from", "What to read");
  from->add_option("--model-dir", flags->model_dir, "a model saved by `coxswain train`")
      ->type_name("DIR");
  auto* directory = from->add_option("--checkpoint-dir", flags->checkpoint_dir,
                                     "a directory of checkpoints, or one checkpoint")
                        ->type_name("DIR");
  from->require_option(1);
  CheckNumber(command->add_option("--checkpoint", flags->checkpoint,
                                  "number of the checkpoint; default: the newest good one"),
              0, kMostCheckpoint)
      ->needs(directory)
      ->type_name("N");
}

Shape ShapeOfRows(const model::SavedVariable& variable, int64_t rows) {
  Shape shape = variable.shape;
  if (variable.hash) shape.set_dim(0, rows);
  return shape;
}

}  // namespace coxswain::cli
