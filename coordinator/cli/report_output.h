// Where a command's report goes: to a file, or with the path "-" to stdout.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "runtime/net/unique_fd.h"

namespace coxswain::cli {

class ReportOutput {
 public:
  // Before anything is printed: with "-" stdout belongs to the report from here on, and what else
  // is printed there goes to stderr. An empty path is no report.
  static absl::StatusOr<ReportOutput> Open(const std::string& path);

  // What outputs.h checks: empty where no file is meant.
  const std::string& file() const { return file_; }
  // Errors: those of WriteReport.
  absl::Status Write(const std::string& text) const;

 private:
  std::string file_;
  net::UniqueFd stdout_;
};

}  // namespace coxswain::cli
