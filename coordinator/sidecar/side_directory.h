// The directory of a side-car, which holds nothing else:
//
//   reports.jsonl      a line for each checkpoint that was evaluated, see evaluation_log.h
//   checkpoint-000042  the best one so far, and the one that is evaluated just now: links to the
//                      job's files, which so stay when the job removes its checkpoint
//   best               a link to the best one
//   inputs             links to the job's inputs, so that `best` can be asked for predictions; also
//                      to the joined tables that `best` was trained with and the job has no more
//   .lock              one side-car at a time has the directory
//
// What is in it follows from the reports, so that a side-car may be killed at any moment. It never
// touches what is not its own: a directory with other files in it is refused.
//
// Thread model: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/sidecar/evaluation_log.h"
#include "runtime/env/file_system.h"

namespace coxswain::sidecar {

inline constexpr char kReports[] = "reports.jsonl";
inline constexpr char kBest[] = "best";

class SideDirectory {
 public:
  // Makes the directory, or takes one that a side-car of this job has left. `files` outlives it.
  // Errors: FailedPrecondition for a directory with anything else in it, for a `best` that is no
  // link to a checkpoint beside it, and for reports of another job; Unavailable when another
  // side-car has it; those of the file system.
  static absl::StatusOr<SideDirectory> Open(env::FileSystem* files, const std::string& path,
                                            const std::string& job, const BestBy& by);

  // Links a checkpoint of the job into the directory; returns the path there.
  // Errors: those of checkpoint::KeepCheckpoint.
  absl::StatusOr<std::string> Take(const std::string& checkpoints, uint64_t number);
  // The same of the job's inputs, when they are others than those that are there. True: they were.
  // A best checkpoint of another job than they are is let go.
  // Errors: NotFound while the job has written none; those of the file system.
  absl::StatusOr<bool> TakeInputs(const std::string& checkpoints);
  std::string inputs() const;

  // Notes that a checkpoint was evaluated, marks it when it is the best so far, and lets go of what
  // is neither; `evaluated->best` says which.
  absl::Status Report(EvaluatedCheckpoint* evaluated);
  // By which metric checkpoints are compared from now on.
  void set_by(const BestBy& by) { by_ = by; }
  // Lets go of what Take has taken and is not the best.
  absl::Status LetGo();

  const EvaluationLog& log() const { return log_; }
  const std::string& path() const { return path_; }

 private:
  SideDirectory(env::FileSystem* files, std::string path, std::unique_ptr<env::FileLock> lock,
                EvaluationLog log, BestBy by);
  std::string PathOf(uint64_t number) const;
  // `best` leads to the best one, and only that one stays.
  absl::Status Tidy();
  absl::Status MarkBest(uint64_t number);

  env::FileSystem* files_;
  std::string path_;
  std::unique_ptr<env::FileLock> lock_;  // null where there are no locks
  EvaluationLog log_;
  BestBy by_;
};

// What tells a checkpoint from another one under its number; empty when there is none.
std::string IdentityOf(env::FileSystem* files, const std::string& checkpoint);

}  // namespace coxswain::sidecar
