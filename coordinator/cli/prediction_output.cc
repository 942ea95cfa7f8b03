#include "coordinator/cli/prediction_output.h"

#include <unistd.h>

#include <system_error>

#include "runtime/base/status.h"
#include "runtime/env/keep_access.h"
#include "runtime/env/replace_directory.h"

namespace coxswain::cli {
namespace {

constexpr char kFlag[] = "--output";

}  // namespace

absl::Status PredictionOutput::Check(const std::string& path, bool force,
                                     const std::vector<CommandInput>& inputs) {
  if (path.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckOutsideSaved({kFlag, path}));
  return CheckOutputFile(kFlag, path, force ? OutputKind::kForced : OutputKind::kNew, inputs);
}

absl::StatusOr<std::unique_ptr<PredictionOutput>> PredictionOutput::Open(const std::string& path) {
  std::unique_ptr<PredictionOutput> output(new PredictionOutput);
  if (path.empty()) return output;
  ASSIGN_OR_RETURN(output->stream_, OpenIfStream(path));
  if (output->stream_) return output;
  output->target_ = env::BehindLinks(path);
  output->written_ = env::NewNameBeside(output->target_);
  ASSIGN_OR_RETURN(output->file_, output->files_->Create(output->written_));
  return output;
}

PredictionOutput::~PredictionOutput() {
  if (file_ != nullptr && !published_) files_->RemoveAll(written_).IgnoreError();
}

absl::Status PredictionOutput::Write(absl::string_view text) {
  if (file_ != nullptr) return file_->Append(text.data(), text.size());
  const int fd = stream_ ? stream_->get() : STDOUT_FILENO;
  return WriteAll(fd, std::string(text), stream_ ? "the output" : "stdout");
}

absl::Status PredictionOutput::Finish() {
  if (file_ == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(file_->Sync());
  RETURN_IF_ERROR(file_->Close());
  env::KeepAccess(target_, written_);
  RETURN_IF_ERROR(files_->Rename(written_, target_));
  published_ = true;
  return absl::OkStatus();
}

}  // namespace coxswain::cli
