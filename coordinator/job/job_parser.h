// Reads JOB.yaml.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/job/job_spec.h"

namespace coxswain::job {

// What a job is read for. An evaluation has its own metrics, and leaves out of `train` what goes by
// metrics that it does not compute: early_stopping, reduce_on_plateau.
enum class JobUse { kTraining, kEvaluation };

// Reads a job from `text`. `file_name` is how messages call it; paths in it stay as they are.
// `overrides` are "key.path=value", as --set takes them: elements of lists go by index or by their
// name ("features.history.dim=32"), an empty value removes a key. They are applied before anything
// is checked, and what is wrong with them is reported as "--set key.path=value: ...". Errors:
// InvalidArgument with one line for each thing that is wrong, "file:line:column: ..."; cause
// kConfiguration.
absl::StatusOr<JobSpec> ParseJob(absl::string_view text, const std::string& file_name,
                                 const std::vector<std::string>& overrides = {},
                                 JobUse use = JobUse::kTraining);

// Reads a job from a file; relative paths in it (and in overrides) start at the file's directory.
// Errors: those of ParseJob; InvalidArgument for keys that would change nothing (idle_keys.h);
// NotFound, PermissionDenied.
absl::StatusOr<JobSpec> ParseJobFile(const std::string& path,
                                     const std::vector<std::string>& overrides = {},
                                     JobUse use = JobUse::kTraining);

// The same for a text that was kept elsewhere: `file_name` is how messages call it, and relative
// paths start at `directory`, which is absolute.
absl::StatusOr<JobSpec> ParseKeptJob(absl::string_view text, const std::string& file_name,
                                     const std::string& directory,
                                     const std::vector<std::string>& overrides = {},
                                     JobUse use = JobUse::kTraining);

}  // namespace coxswain::job
