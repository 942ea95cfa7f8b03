#include "coordinator/cli/report_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "coordinator/cli/outputs.h"
#include "runtime/env/system_error.h"

namespace coxswain::cli {

absl::StatusOr<ReportOutput> ReportOutput::Open(const std::string& path) {
  ReportOutput report;
  if (path != "-") {
    report.file_ = path;
    return report;
  }
  std::fflush(stdout);
  report.stdout_ = net::UniqueFd(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!report.stdout_.valid() || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    return env::SystemError(errno, "write to", "stdout");
  }
  return report;
}

absl::Status ReportOutput::Write(const std::string& text) const {
  return stdout_.valid() ? WriteAll(stdout_.get(), text, "stdout") : WriteReport(file_, text);
}

}  // namespace coxswain::cli
