// The parts of a saved model other than its variables, beside the checkpoints of a job, so that
// predictions can be made from a checkpoint: CHECKPOINT_DIR/inputs, with the files that SaveModel
// writes and
//
//   inputs.json   "format": "coxswain-inputs", the job, the fingerprint of its data, "files",
//                 "checksums" as in model.json; of a job that follows "side_tables", the version of
//                 those that it trains with now, see saved_side_tables.h
//
// A checkpoint belongs to the inputs if both have the same data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/model/saved_manifest.h"
#include "coordinator/model/saved_model.h"
#include "coordinator/model/saved_reader.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/data/dataset.h"
#include "runtime/env/file_system.h"

namespace coxswain::model {

inline constexpr char kInputsFolder[] = "inputs";

// The inputs' directory for a directory of checkpoints, or for one checkpoint in it.
std::string InputsOf(const std::string& checkpoints);

// Writes the inputs beside the checkpoints, unless the same inputs are there already. Replaces the
// inputs of an earlier job in one step, and nothing else. `info`: steps and metrics are not kept.
// Errors: those of CheckReplaceable and of the file system; after an error no partial files remain,
// but where it can be UpdateSideTables is done.
absl::Status SaveInputs(const data::Dataset& data, const job::JobSpec& job,
                        const SavedModelInfo& info, const std::string& checkpoints);

// Of a job that follows: adds the side tables that `data` has now to the inputs that are there,
// which keep those of the checkpoints that there are. Whoever reads the inputs meanwhile sees them
// as they were before or as they are then. Errors: NotFound where there are no inputs;
// FailedPrecondition for those of another job; those of the file system.
absl::Status UpdateSideTables(const data::Dataset& data, const job::JobSpec& job,
                              const std::string& checkpoints);

// The inputs for a directory of their own, which keeps some of a job's checkpoints.
struct InputsToTake {
  std::vector<std::string> of_job;  // files of the job's inputs
  std::vector<std::string> of_own;  // side tables that are there, and that the job has no more
  std::string manifest;             // of both
};
// What is to be `own` now, beside the checkpoints of the directory `kept`; nullopt where `own` has
// the job's inputs as they are. Errors: NotFound where the job has no inputs.
absl::StatusOr<std::optional<InputsToTake>> FindInputsToTake(env::FileSystem* files,
                                                             const std::string& of_job,
                                                             const std::string& own,
                                                             const std::string& kept);

// Whether the checkpoint at `path` belongs to the job of these inputs. Errors: NotFound where there
// are no inputs; FailedPrecondition for those of another job's or other data's; DataLoss.
absl::Status CheckInputsFit(const std::string& inputs, const checkpoint::Manifest& checkpoint,
                            const std::string& path);

// The job of a saved model, or of inputs, as it was run, and with further overrides (--set);
// relative paths start at its original directory.
absl::StatusOr<job::JobSpec> ReadKeptJob(const std::string& directory, const ManifestKind& kind,
                                         const std::vector<std::string>& overrides = {});

// Reads all files of a checkpoint or a model and holds them against their checksums, before rows
// are read here and there. Errors: DataLoss naming the file; those of reading.
absl::Status VerifySource(const SavedSource& source);

// Gives the checkpoint's tables the names of their rows, as far as the inputs beside it have them.
// Errors: those of reading the inputs; missing inputs, or inputs of another job, are not an error.
absl::Status NameRows(const std::string& checkpoints, SavedSource* source);

}  // namespace coxswain::model
