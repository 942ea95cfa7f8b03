// The reports of a side-car: a file with a line of JSON for each checkpoint that was evaluated, the
// oldest first. What a side-car has to know of the ones before it is read from there, so that it
// goes on where it was, however it ended.
//
// Thread model: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/model/bootstrap.h"
#include "runtime/env/file_system.h"

namespace coxswain::sidecar {

struct EvaluatedCheckpoint {
  uint64_t number = 0;
  std::string identity;  // of its manifest: another checkpoint under this number has another one
  std::string job;
  int64_t steps = 0;
  std::string written;  // when, as text
  std::string part;
  int64_t examples = 0;
  bool held_out = true;                   // no row of training was scored
  std::map<std::string, double> metrics;  // not a number: not defined by the examples
  std::map<std::string, model::Interval> intervals = {};  // of metrics, if the job asks for them
  bool best = false;                                      // of all until then
  bool finished = false;                                  // the job ended with it
};

// A line, without its end.
std::string ToLine(const EvaluatedCheckpoint& evaluated);
// Errors: InvalidArgument, which says what is wrong.
absl::StatusOr<EvaluatedCheckpoint> ParseLine(absl::string_view line);

// By which of two checkpoints one is better.
struct BestBy {
  std::string metric;
  bool higher_is_better = true;

  // Whether `a` is better than `b`; equal ones and what is not a number are not.
  bool Better(const EvaluatedCheckpoint& a, const std::optional<EvaluatedCheckpoint>& b) const;
};

class EvaluationLog {
 public:
  // Reads the file, which is made where there is none. A last line that has no end was being
  // written when the process ended: it goes.
  // Errors: FailedPrecondition for a line that is no report, with its number, and for one of
  // another job; those of the file system.
  static absl::StatusOr<EvaluationLog> Open(env::FileSystem* files, const std::string& path,
                                            const std::string& job);

  // Lasts once it returns.
  absl::Status Append(const EvaluatedCheckpoint& evaluated);
  const std::optional<EvaluatedCheckpoint>& last() const { return last_; }
  // The last one that was the best until then.
  const std::optional<EvaluatedCheckpoint>& best() const { return best_; }
  // The best one's data is gone: the next one is the best.
  void ForgetBest() { best_.reset(); }

 private:
  explicit EvaluationLog(std::string path) : path_(std::move(path)) {}
  void Take(const EvaluatedCheckpoint& evaluated);

  std::string path_;
  std::optional<EvaluatedCheckpoint> last_, best_;
};

}  // namespace coxswain::sidecar
