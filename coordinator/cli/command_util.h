// What the subcommands share.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/job/job_spec.h"

namespace coxswain::cli {

// Prints the error; returns its exit code.
int Complain(const absl::Status& status);
// The same with cause kConfiguration, unless it has one.
absl::Status AsConfiguration(const absl::Status& status);
// The same for an error by whose code the user asked for what cannot be, as before training.
absl::Status AsUsersMistake(const absl::Status& status);
// Also looks for the columns that the job names, and at where its cache is.
absl::StatusOr<job::JobSpec> ReadJob(const std::string& path,
                                     const std::vector<std::string>& overrides,
                                     job::JobUse use = job::JobUse::kTraining);

// Whether one of these `--set` gave the job the key, rather than its file, or an override that a
// saved job was trained with.
bool IsGivenBy(const std::vector<std::string>& overrides, const job::JobSpec& job,
               const std::string& key);

}  // namespace coxswain::cli
