// A saved model in a cluster of this process, with the data of its job: for evaluation.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/cli/commands.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/model/saved_learned.h"
#include "coordinator/model/saved_manifest.h"
#include "coordinator/runner/runner.h"

namespace coxswain::cli {

struct EvaluatedJob {
  job::JobSpec job;
  // Rows get their joined columns from the tables that the model keeps, not from the files that the
  // job names, which may be others by now.
  bool joins_kept_tables = false;
};

// The job that a model is evaluated with: that of the file, or where there is none, the one that
// the model was trained with, or whose inputs are in `directory`, as it was then; its data is where
// it was, too. Joined tables are the model's, unless the file or `overrides` name others. A machine
// that evaluates need not have the GPUs of those that trained: to insist on them is for `overrides`
// alone.
absl::StatusOr<EvaluatedJob> ReadEvaluatedJob(const std::string& file, const std::string& directory,
                                              const std::vector<std::string>& overrides,
                                              const model::ManifestKind& kind = model::kSavedModel);

struct OpenedModel {
  std::unique_ptr<runner::JobRunner> runner;
  model::TrainedOn trained;
};

// A cluster with the saved values in it: one of this process, or the one elsewhere. Data is read by
// what the model learned, and joins the tables of the checkpoint that is read. Errors: also those
// of CheckInputsFit; Unavailable for a directory that is replaced meanwhile.
absl::StatusOr<OpenedModel> OpenModel(EvaluatedJob evaluated, const SavedFlags& from,
                                      const Where& where = {});

}  // namespace coxswain::cli
