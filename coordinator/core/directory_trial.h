// Finds out whether the parameter servers can write where checkpoints are to be, before a job
// trains for an hour without one: the coordinator makes a directory there, as for a checkpoint, and
// each PS makes a file in it. So another file system under the same path is found, too.
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
  // Whoever has not answered by then cannot write there in time.
  static constexpr absl::Duration kPatience = absl::Seconds(60);

  DirectoryTrial(env::Env* env, std::shared_ptr<env::EventLoop> loop, std::string directory,
                 DoneFn done);

  // Asks these PS; once. `done` is called once. A PS that is lost meanwhile is no error: it is
  // recovered, or missed, as ever. Nor is a full disk: that is not about to stay so, and a failed
  // checkpoint makes room. Errors: FailedPrecondition with cause kConfiguration, naming each PS
  // that cannot write there, its address, and why; the same of this process.
  void Start(std::vector<std::shared_ptr<TaskSession>> ps);

 private:
  void Make();
  void Ask();
  void OnAnswer(const TaskSession& ps, const absl::Status& status);
  void OnTimeout();
  // All have answered, and some do not see the directory. Another coordinator that held the
  // checkpoints before may have cleaned up, and it with what was left: then once more.
  void MakeAgain();
  // Takes away what was made there, and reports.
  void Finish();
  void OnPool(std::function<absl::Status()> work, std::function<void(absl::Status)> then);

  env::Env* const env_;
  const std::shared_ptr<env::EventLoop> loop_;
  const std::string directory_;  // of all checkpoints
  const std::string trial_;      // the one that is made in it
  bool made_ = false;            // the latter
  bool unseen_ = false;          // by some PS
  bool again_ = false;           // this is the second time
  DoneFn done_;                  // null: reported
  std::vector<std::shared_ptr<TaskSession>> ps_;
  std::set<std::string> asked_;  // PS that have not answered, with their addresses
  std::vector<std::string> refusals_;
};

}  // namespace coxswain::core
