#include "coordinator/cli/command_util.h"

#include <cstdio>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/read_as_data.h"
#include "coordinator/job/check_columns.h"
#include "coordinator/job/job_parser.h"
#include "runtime/base/status.h"

namespace coxswain::cli {

int Complain(const absl::Status& status) {
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return ToExitCode(status);
}

absl::Status AsConfiguration(const absl::Status& status) {
  if (status.ok() || GetDetail(status)) return status;
  return WithDetail(status, {ErrorCause::kConfiguration, false, "", 0});
}

absl::Status AsUsersMistake(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kPermissionDenied:
      return AsConfiguration(status);
    default:
      return status;
  }
}

absl::StatusOr<job::JobSpec> ReadJob(const std::string& path,
                                     const std::vector<std::string>& overrides, job::JobUse use) {
  auto job = job::ParseJobFile(path, overrides, use);
  if (!job.ok()) return AsConfiguration(job.status());
  RETURN_IF_ERROR(CheckCacheNotReadAsData(*job));
  RETURN_IF_ERROR(job::CheckColumns(*job));
  return job;
}

bool IsGivenBy(const std::vector<std::string>& overrides, const job::JobSpec& job,
               const std::string& key) {
  const auto at = job.locations.find(key);
  return at != job.locations.end() && absl::c_any_of(overrides, [&](const std::string& set) {
           return at->second == absl::StrCat("--set ", set);
         });
}

}  // namespace coxswain::cli
