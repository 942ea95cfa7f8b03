// Checks whether the parameter servers can write checkpoints, before a job trains for an hour
// without one: the coordinator makes a directory there, as for a checkpoint, and each PS makes a
// file in it. This also detects a different file system under the same path.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/core/task_session.h"
#include "runtime/env/env.h"

namespace coxswain::core {

// Thread model: the coordinator's loop; files are touched on the pool.
class DirectoryTrial : public std::enable_shared_from_this<DirectoryTrial> {
 public:
  using DoneFn = std::function<void(absl::Status)>;
  // A PS that has not answered by then counts as unable to write there.
  static constexpr absl::Duration kPatience = absl::Seconds(60);

  DirectoryTrial(env::Env* env, std::shared_ptr<env::EventLoop> loop, std::string directory,
                 DoneFn done);

  // Asks these PS. To be called once; `done` is called once. A PS that is lost meanwhile is not an
  // error: it is recovered or reported as usual. Neither is a full disk, because space may be
  // freed, and a failed checkpoint makes room. Errors: FailedPrecondition with cause
  // kConfiguration, naming each PS that cannot write there, its address, and why; the same of this
  // process.
  void Start(std::vector<std::shared_ptr<TaskSession>> ps);

 private:
  void Make();
  void Ask();
  void OnAnswer(const TaskSession& ps, const absl::Status& status);
  void OnTimeout();
  // All PS have answered, and some do not see the directory. A previous coordinator may have
  // removed it while cleaning up, so the trial is repeated once.
  void MakeAgain();
  // Removes the files of the trial, and reports.
  void Finish();
  void OnPool(std::function<absl::Status()> work, std::function<void(absl::Status)> then);

  env::Env* const env_;
  const std::shared_ptr<env::EventLoop> loop_;
  const std::string directory_;  // of all checkpoints
  const std::string trial_;      // the one that is made in it
  bool made_ = false;            // the trial directory exists
  bool unseen_ = false;          // some PS does not see it
  bool again_ = false;           // this is the second time
  DoneFn done_;                  // null: reported
  std::vector<std::shared_ptr<TaskSession>> ps_;
  std::set<std::string> asked_;  // PS that have not answered, with their addresses
  std::vector<std::string> refusals_;
};

}  // namespace coxswain::core
