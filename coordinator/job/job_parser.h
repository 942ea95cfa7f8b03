// Reads JOB.yaml.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/job/job_spec.h"

namespace coxswain::job {

// Reads a job from `text`. `file_name` is how messages call it; paths in it stay as they are.
// `overrides` are "key.path=value", as --set takes them: elements of lists go by index or by their
// name ("features.history.dim=32"), an empty value removes a key. They are applied before anything
// is checked, and what is wrong with them is reported as "--set key.path=value: ...". Errors:
// InvalidArgument with one line for each thing that is wrong, "file:line:column: ..."; cause
// kConfiguration.
absl::StatusOr<JobSpec> ParseJob(absl::string_view text, const std::string& file_name,
                                 const std::vector<std::string>& overrides = {});

// Reads a job from a file; relative paths in it (and in overrides) start at the file's directory.
// Errors: those of ParseJob; InvalidArgument for keys that would change nothing (idle_keys.h);
// NotFound, PermissionDenied.
absl::StatusOr<JobSpec> ParseJobFile(const std::string& path,
                                     const std::vector<std::string>& overrides = {});

// The same for a text that was kept elsewhere: `file_name` is how messages call it, and relative
// paths start at `directory`, which is absolute.
absl::StatusOr<JobSpec> ParseKeptJob(absl::string_view text, const std::string& file_name,
                                     const std::string& directory,
                                     const std::vector<std::string>& overrides = {});

}  // namespace coxswain::job
