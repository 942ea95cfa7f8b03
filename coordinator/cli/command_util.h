// What the subcommands share.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/job/job_spec.h"

namespace coxswain {

// Prints the error; returns its exit code.
int Complain(const absl::Status& status);
// The same with cause kConfiguration, unless it has one.
absl::Status AsConfiguration(const absl::Status& status);
// Also looks for the columns that the job names.
absl::StatusOr<JobSpec> ReadJob(const std::string& path, const std::vector<std::string>& overrides);
// Whether `flag`'s path can be written, as far as one can tell without writing: who trains for
// hours wants to know before. With `make_directories` what is missing of the path will be made.
absl::Status CheckWritable(absl::string_view flag, const std::string& path, bool make_directories);
// Whole or not at all; does nothing for an empty path.
absl::Status WriteReport(const std::string& path, const std::string& text);

}  // namespace coxswain
