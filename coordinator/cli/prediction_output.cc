#include "coordinator/cli/prediction_output.h"

#include <unistd.h>

#include <utility>

#include "runtime/base/status.h"
#include "runtime/env/keep_access.h"

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
  env::RemoveUnfinished(output->target_);
  ASSIGN_OR_RETURN(env::UnfinishedFile unfinished, env::UnfinishedFile::Beside(output->target_));
  output->unfinished_.emplace(std::move(unfinished));
  ASSIGN_OR_RETURN(output->file_, output->files_->Create(output->unfinished_->path()));
  return output;
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
  env::KeepAccess(target_, unfinished_->path());
  return unfinished_->MoveTo(files_.get(), target_);
}

}  // namespace coxswain::cli
