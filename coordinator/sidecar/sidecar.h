// Follows the checkpoints that a job writes, and evaluates each of them: the oldest first of those
// that have come since the last one.
//
// Thread model: one thread, but for Interrupt.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/model/newer_checkpoints.h"
#include "coordinator/runner/runner.h"
#include "coordinator/sidecar/evaluation_session.h"
#include "coordinator/sidecar/side_directory.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/env/file_system.h"

namespace coxswain::sidecar {

// The job ended with it. One that was begun just before may say so, too, since a job's state is
// written last; but its shards are older, and may lack closures.
bool IsFinished(const checkpoint::Manifest& manifest);

class Sidecar {
 public:
  struct Opened {
    std::unique_ptr<EvaluationSession> session;
    bool held_out = true;  // no row of training is scored
    BestBy by;             // of the job whose inputs these are
  };
  struct Hooks {
    // A cluster with the job, whose inputs are in this directory, for checkpoints with this version
    // of its joined tables (model/saved_side_tables.h). Errors with the cause kConfiguration are
    // told to the user, and no checkpoint is passed over for them.
    std::function<absl::StatusOr<Opened>(const std::string& inputs, const std::string& side_tables)>
        open;
    std::function<void(const EvaluatedCheckpoint&, const runner::Evaluation&)> on_evaluated;
    // What is passed over, and why; once each reason.
    std::function<void(const std::string&)> on_note;
  };
  // `directory`: of the side-car. `files` outlives it.
  Sidecar(env::FileSystem* files, std::string checkpoints, SideDirectory directory, Hooks hooks);

  // Looks, and evaluates what is new. Returns how many that were.
  // Errors: those of `open` and of the cluster, after which it may be called again and begins with
  // a new session; those of the side-car's directory; Cancelled after Interrupt.
  absl::StatusOr<int> Look();
  // The last one that was evaluated, by an earlier side-car too.
  const std::optional<EvaluatedCheckpoint>& last() const { return directory_.log().last(); }
  // Why the checkpoint that the job ended with was passed over; OK unless it was.
  const absl::Status& end_passed_over() const { return end_passed_over_; }
  const SideDirectory& directory() const { return directory_; }

  // Look ends, and does nothing from now on. From any thread.
  void Interrupt();

 private:
  // A session with other inputs than the job's ends.
  absl::Status TakeInputs();
  absl::StatusOr<std::vector<model::SeenCheckpoint>> FindNewer() const;
  // False: the checkpoint cannot be evaluated, which was told.
  absl::StatusOr<bool> EvaluateOne(const model::SeenCheckpoint& found);
  absl::StatusOr<runner::Evaluation> Measure(const std::string& taken,
                                             const checkpoint::Manifest& manifest);
  absl::Status OpenSession(const std::string& side_tables);
  void PassOver(const model::SeenCheckpoint& found, const absl::Status& why);

  env::FileSystem* const files_;
  const std::string checkpoints_;
  SideDirectory directory_;
  const Hooks hooks_;
  std::optional<model::SeenCheckpoint> seen_;
  struct PassedOver {
    std::string files;  // all of the checkpoint's, as they were; empty: it is not passed over
    std::string told;
  };
  std::map<uint64_t, PassedOver> passed_over_;  // by number
  absl::Status end_passed_over_;
  bool held_out_ = true;
  std::string side_tables_;  // the version that the session's rows are read with
  absl::Mutex mutex_;
  std::shared_ptr<EvaluationSession> session_ ABSL_GUARDED_BY(mutex_);
  bool interrupted_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace coxswain::sidecar
