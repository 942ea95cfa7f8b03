#include "coordinator/cli/predict_command.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/cli/command_util.h"
#include "coordinator/cli/display.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/interrupt.h"
#include "coordinator/cli/open_cluster.h"
#include "coordinator/cli/outputs.h"
#include "coordinator/cli/prediction_output.h"
#include "coordinator/predict/predict_file.h"
#include "runtime/base/status.h"
#include "runtime/config/yaml_reader.h"
#include "runtime/data/row_blocks.h"
#include "runtime/data/store_calls.h"
#include "runtime/env/lost_pages.h"

namespace coxswain::cli {
namespace {

// What the flag says; else what the file's name does; empty: neither.
std::string FormatOfInput(const PredictFlags& flags) {
  if (!flags.input_format.empty()) return flags.input_format;
  for (const char* format : {"parquet", "arrow"}) {
    if (absl::EndsWith(flags.input, absl::StrCat(".", format))) return format;
  }
  return "";
}

absl::Status CheckOutput(const PredictFlags& flags) {
  if (flags.output.empty()) return absl::OkStatus();
  std::vector<CommandInput> inputs;
  struct stat standard_input {};
  if (flags.input != data::kStandardInput) {
    inputs.push_back({"the input", flags.input});
  } else if (fstat(STDIN_FILENO, &standard_input) == 0 && S_ISREG(standard_input.st_mode)) {
    inputs.push_back({"the input", "/dev/stdin"});
  }
  for (CommandInput& origin : OriginsOf(flags.from)) inputs.push_back(std::move(origin));
  AddInputsOf(flags.where, &inputs);
  return PredictionOutput::Check(flags.output, flags.force, inputs);
}

// What predicts, for a thread that ends it.
class Running {
 public:
  void Begin(const predict::Predictor* predictor) {
    absl::MutexLock lock(&mutex_);
    predictor_ = predictor;
    if (stopped_ && predictor_ != nullptr) predictor_->Interrupt();
  }
  void Stop() {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    data::EndStoreCalls();
    if (predictor_ != nullptr) predictor_->Interrupt();
  }
  bool stopped() const {
    absl::MutexLock lock(&mutex_);
    return stopped_;
  }

 private:
  mutable absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  const predict::Predictor* predictor_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

absl::StatusOr<predict::PredictedRows> Run(const PredictFlags& flags, Running* running) {
  env::GuardMappedFiles();
  RETURN_IF_ERROR(CheckOutput(flags));
  auto predictor =
      LoadPredictor(flags.from, flags.verify, FormatOfInput(flags), OpenerOf(flags.where));
  if (!predictor.ok()) return AsUsersMistake(predictor.status());
  running->Begin(predictor->get());
  const auto end = absl::MakeCleanup([running] { running->Begin(nullptr); });
  if (flags.top > 0 && !(*predictor)->chooses()) {
    return config::ConfigurationError("--top: this model says a number of each row, and no choice");
  }
  auto output = PredictionOutput::Open(flags.output);
  if (!output.ok() && running->stopped()) return absl::CancelledError(output.status().message());
  if (!output.ok()) return AsConfiguration(output.status());
  predict::PredictFileOptions options;
  options.input = flags.input;
  options.top = flags.top;
  ASSIGN_OR_RETURN(options.format, predict::FindLineFormat(flags.format));
  options.keep = flags.keep;
  options.skip_bad_rows = flags.skip_bad_rows;
  options.stopped = [running] { return running->stopped(); };
  auto rows = predict::PredictFile(**predictor, options,
                                   [&](absl::string_view text) { return (*output)->Write(text); });
  if (!rows.ok() && running->stopped()) return absl::CancelledError("interrupted");
  if (!rows.ok()) return AsUsersMistake(rows.status());
  if (env::LostPages() > 0) {
    return absl::DataLossError(
        "a file of the model was cut short while it was read: save the model again");
  }
  RETURN_IF_ERROR((*output)->Finish());
  return rows;
}

}  // namespace

int PredictCommand(const PredictFlags& flags) {
  Running running;
  const InterruptScope scope([&running] { running.Stop(); });
  const auto rows = Run(flags, &running);
  if (!rows.ok()) {
    const int code = Complain(rows.status());
    return absl::IsCancelled(rows.status()) ? static_cast<int>(kExitInterrupted) : code;
  }
  for (const std::string& error : rows->first_skipped) {
    std::fprintf(stderr, "skipped: %s\n", error.c_str());
  }
  if (rows->skipped > 0) {
    std::fprintf(stderr, "note: %s of %s rows could not be read and were skipped\n",
                 WithCommas(rows->skipped).c_str(), WithCommas(rows->skipped + rows->rows).c_str());
  }
  return kExitDone;
}

}  // namespace coxswain::cli
