// The display of a running job. Writes to stdout: a live line if that is a terminal, else a line
// from time to time (at least train.log_every steps and 5 seconds apart). Thread-safe.
#pragma once

#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "coordinator/cli/recent_rate.h"
#include "coordinator/runner/runner.h"
#include "nlohmann/json.hpp"

namespace coxswain::cli {

// 1234567 -> "1,234,567".
std::string WithCommas(int64_t number);
// "0.9123", with its interval "0.9123 [0.9011, 0.9230]", or "undefined: all labels are 0".
std::string FormatMetric(const runner::Evaluation& evaluation, const std::string& name);
// The line of an event: "/job:worker/task:1 is lost, its 2 closures run elsewhere: ...".
std::string FormatEvent(const ClusterEvent& event);
// Evaluation::counts as "1,204 of 19,544 questions, 203 of 353 pairs": those with known words.
std::string FormatWordCounts(const std::map<std::string, int64_t>& counts);
// Seconds as "0:07" or "1:02:03".
std::string AsClock(double seconds);

class Display {
 public:
  explicit Display(bool quiet);
  ~Display();

  // 0: no lines of progress, except on a terminal.
  void set_log_every(int64_t steps);

  // Prints lines on stdout unchanged.
  void ShowText(const std::string& text);
  // With the rate of the last seconds.
  void ShowProgress(const runner::Progress& reading);
  void ShowEvaluation(const runner::Evaluation& evaluation);
  // Prints an event of the cluster as a line on stderr; with the time if that is no terminal.
  void ShowEvent(const ClusterEvent& event);
  // Ends the live line.
  void Clear();

 private:
  std::string Line(const runner::Progress& progress) const;

  const bool quiet_;
  const bool terminal_;
  absl::Mutex mu_;
  RecentRate recent_ ABSL_GUARDED_BY(mu_);
  bool live_ ABSL_GUARDED_BY(mu_) = false;
  int64_t log_every_ ABSL_GUARDED_BY(mu_) = 1;
  int64_t last_steps_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t steps_per_epoch_ ABSL_GUARDED_BY(mu_) = 0;  // 0: not known
  absl::Time last_line_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  absl::Time last_index_line_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
};

// The result as text for a terminal.
std::string FormatResult(const runner::JobResult& result);
std::string FormatSuggestions(const std::vector<runner::Suggestions>& suggestions);
// A line for each of the largest slices of each feature, and one that counts the others.
std::string FormatSlices(const std::vector<runner::SliceMetrics>& slices);
nlohmann::ordered_json SlicesJson(const std::vector<runner::SliceMetrics>& slices);
// "auc" -> [low, high].
nlohmann::ordered_json IntervalsJson(const std::map<std::string, model::Interval>& intervals);
// docs/report.md.
std::string ToReportJson(const runner::JobResult& result);

}  // namespace coxswain::cli
