#include "coordinator/cli/command_util.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/job/check_columns.h"
#include "coordinator/job/job_parser.h"
#include "runtime/base/status.h"
#include "runtime/env/file_system.h"

namespace coxswain {

int Complain(const absl::Status& status) {
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return ToExitCode(status);
}

absl::Status AsConfiguration(const absl::Status& status) {
  if (status.ok() || GetDetail(status)) return status;
  return WithDetail(status, {ErrorCause::kConfiguration, false, "", 0});
}

absl::StatusOr<JobSpec> ReadJob(const std::string& path,
                                const std::vector<std::string>& overrides) {
  auto job = ParseJobFile(path, overrides);
  if (!job.ok()) return AsConfiguration(job.status());
  RETURN_IF_ERROR(CheckColumns(*job));
  return job;
}

absl::Status CheckWritable(absl::string_view flag, const std::string& path, bool make_directories) {
  namespace fs = std::filesystem;
  if (path.empty()) return absl::OkStatus();
  const auto no = [&](absl::string_view why) {
    return absl::FailedPreconditionError(
        absl::StrCat(flag, " ", path, " cannot be written: ", why));
  };
  std::error_code ignored;
  if (!make_directories && (path.back() == '/' || fs::is_directory(path, ignored))) {
    return no("it is a directory");
  }
  fs::path folder = fs::absolute(path, ignored).lexically_normal();
  if (folder.filename().empty()) folder = folder.parent_path();  // "model/"
  folder = folder.parent_path();
  while (make_directories && !fs::exists(folder, ignored) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  if (fs::exists(folder, ignored) && !fs::is_directory(folder, ignored)) {
    return no(absl::StrCat(folder.string(), " is no directory"));
  }
  if (access(folder.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return no(absl::StrCat(folder.string(), ": ", std::strerror(errno)));
}

absl::Status WriteReport(const std::string& path, const std::string& text) {
  if (path.empty()) return absl::OkStatus();
  return NewRealFileSystem()->WriteAtomically(path, text);
}

}  // namespace coxswain
