// `--tensorboard DIR`: what a job says of itself while it runs, as summaries for TensorBoard.
// docs/report.md has the tags. A disk that cannot be written ends the summaries, and not the job.
//
// Thread model: thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "coordinator/cli/event_file.h"
#include "coordinator/cli/learning_rates.h"
#include "coordinator/runner/runner.h"

namespace coxswain::cli {

class Summaries {
 public:
  using Warn = std::function<void(const std::string&)>;
  using Clock = std::function<absl::Time()>;
  explicit Summaries(
      Warn warn, Clock now = [] { return absl::Now(); })
      : warn_(std::move(warn)), now_(std::move(now)) {}

  // From here on a new file in this directory, which is made, is written; all calls before do
  // nothing. What earlier files there say of this step and of later ones counts no more. Errors:
  // those of making the file.
  absl::Status Begin(const std::string& directory, int64_t step);
  // What a job that goes on at this step knows of it and of later ones, from its checkpoint.
  void GoOn(const runner::TrainingMeter::Reading& trained,
            const std::vector<runner::Evaluation>& evaluations);
  // A text that TensorBoard shows as it is.
  void AddText(const std::string& tag, const std::string& text);
  // Of all points of progress from here on.
  void ShowRates(std::vector<NamedRate> rates);
  // Writes a point at most once a second, and before an evaluation.
  void AddProgress(const runner::Progress& progress);
  // For the next point of progress.
  void AddCounters(const runner::RunCounters& counters, int workers);
  // One that was the last to be added already is not written again.
  void AddEvaluation(const runner::Evaluation& evaluation);
  // "validation/auc" for each metric that is a number.
  void AddMetrics(const std::string& part, int64_t steps,
                  const std::map<std::string, double>& metrics);
  // The end: writes what came too soon for a point of its own.
  void Finish();

 private:
  struct Counters {
    runner::RunCounters run;
    int workers = 0;
  };
  // Where the examples per second of the next point are counted from.
  struct Since {
    int64_t examples = 0;
    double seconds = 0;
  };

  void WriteEvaluation(const runner::Evaluation& evaluation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WriteProgress() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WriteMetrics(const std::string& part, int64_t steps,
                    const std::map<std::string, double>& metrics)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Write(proto::TfEvent event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // "The values of what follows replace those from this step on."
  proto::TfEvent Start(int64_t step) const;
  proto::TfEvent NewEvent(int64_t step) const;

  const Warn warn_;
  const Clock now_;
  absl::Mutex mu_;
  std::optional<EventFile> file_ ABSL_GUARDED_BY(mu_);
  int64_t last_step_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<runner::Progress> waiting_ ABSL_GUARDED_BY(mu_);  // not written yet
  absl::Time last_point_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  Since since_ ABSL_GUARDED_BY(mu_);
  std::vector<NamedRate> rates_ ABSL_GUARDED_BY(mu_);
  std::optional<Counters> counters_ ABSL_GUARDED_BY(mu_);
  std::optional<runner::Evaluation> evaluated_ ABSL_GUARDED_BY(mu_);
  int64_t evaluated_steps_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace coxswain::cli
