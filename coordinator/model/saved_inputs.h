// All of a saved model but its variables, beside the checkpoints of a job, so that a checkpoint can
// be asked for predictions: CHECKPOINT_DIR/inputs, with the files that SaveModel writes and
//
//   inputs.json   "format": "coxswain-inputs", the job, the fingerprint of its data, "files",
//                 "checksums" as in model.json
//
// A checkpoint belongs to the inputs when both are of the same data.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/model/saved_manifest.h"
#include "coordinator/model/saved_model.h"
#include "coordinator/model/saved_reader.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/data/dataset.h"

namespace coxswain::model {

inline constexpr char kInputsFolder[] = "inputs";

// The directory of inputs of a directory of checkpoints, or of one checkpoint in it.
std::string InputsOf(const std::string& checkpoints);

// Writes them beside the checkpoints, unless they are there already, as they would be. Takes the
// place of an earlier job's in one step, and of nothing else. `info`: steps and metrics are not
// kept. Errors: those of CheckReplaceable and of the file system; nothing is left then.
absl::Status SaveInputs(const data::Dataset& data, const job::JobSpec& job,
                        const SavedModelInfo& info, const std::string& checkpoints);

// Whether the checkpoint at `path` is of the job whose inputs these are.
// Errors: NotFound where there are no inputs; FailedPrecondition for those of another job's or
// other data's; DataLoss.
absl::Status CheckInputsFit(const std::string& inputs, const checkpoint::Manifest& checkpoint,
                            const std::string& path);

// The job of a saved model, or of inputs, as it was run; its relative paths start where it was.
absl::StatusOr<job::JobSpec> ReadKeptJob(const std::string& directory, const ManifestKind& kind);

// The checkpoint's tables get the names of their rows, where the inputs beside it have them.
// Errors: those of reading these; none where there are no inputs, or another job's.
absl::Status NameRows(const std::string& checkpoints, SavedSource* source);

}  // namespace coxswain::model
