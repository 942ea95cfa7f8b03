// Where predictions go: to stdout, to a device or pipe as they come, or to a file that appears when
// it is whole.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/cli/outputs.h"
#include "runtime/env/file_system.h"
#include "runtime/env/unfinished_files.h"

namespace coxswain::cli {

class PredictionOutput {
 public:
  // Whether --output costs nobody a file: not one of the inputs, nor a part of a model, nor, unless
  // it is forced, what is there. An empty path is stdout. Errors: those of CheckOutputFile.
  static absl::Status Check(const std::string& path, bool force,
                            const std::vector<CommandInput>& inputs);
  // Errors: those of the file system.
  static absl::StatusOr<std::unique_ptr<PredictionOutput>> Open(const std::string& path);
  absl::Status Write(absl::string_view text);
  // The file takes the place of an older one.
  absl::Status Finish();

 private:
  PredictionOutput() : files_(env::NewRealFileSystem()) {}

  const std::unique_ptr<env::FileSystem> files_;
  std::optional<net::UniqueFd> stream_;  // --output is one, such as /dev/stdout
  std::string target_;
  std::optional<env::UnfinishedFile> unfinished_;
  std::unique_ptr<env::WritableFile> file_;  // which is written
};

}  // namespace coxswain::cli
