// The daemons of a cluster on this machine: started, started again when they end, and ended.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "coordinator/local/daemon_process.h"
#include "coordinator/local/local_tasks.h"
#include "coordinator/local/restart_budget.h"

namespace coxswain::local {

// Thread-safe. All processes are children of one thread of its own: the system ends them with the
// thread that started them (PR_SET_PDEATHSIG), and the caller's may end earlier than the cluster.
class TaskKeeper {
 public:
  explicit TaskKeeper(const RestartPolicy& policy) : policy_(policy) {}
  // SIGTERM to all, SIGKILL to those that do not follow in time.
  ~TaskKeeper();
  TaskKeeper(const TaskKeeper&) = delete;
  TaskKeeper& operator=(const TaskKeeper&) = delete;

  // Starts them all and waits until they listen. Once. Errors: those of DaemonProcess.
  absl::Status Start(std::vector<DaemonLaunch> launches);
  // In the order of the launches; after Start.
  std::vector<std::string> Addresses() const;
  // Who is behind which address now.
  std::map<std::string, Incarnation> Incarnations() const;

  // From now on tasks that end, or have ended, are started again, and `events` hears of it.
  void Watch(LocalTaskEvents events);
  // No task is started any more, and no event comes once this has returned.
  void StopWatching();

 private:
  struct Task {
    DaemonProcess process;
    bool ps = false;
    RestartBudget budget;
    bool up = true;
    bool given_up = false;
    absl::Duration restart_at = absl::ZeroDuration();  // while it is not up; on Now()'s clock
  };

  void Run(const std::vector<DaemonLaunch>& launches, absl::Status* started);
  absl::Status StartAll(const std::vector<DaemonLaunch>& launches);
  // Returns until when nothing is to be done, unless a task ends.
  absl::Duration Tend(absl::Duration now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnEnd(Task* task, const std::string& how, absl::Duration now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Restart(Task* task, absl::Duration now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool AllGivenUp(bool ps) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Wait(absl::Duration until);
  void Wake() const;
  void EndAll();

  const RestartPolicy policy_;
  net::UniqueFd wake_;
  std::thread thread_;
  mutable absl::Mutex mu_;
  bool started_ ABSL_GUARDED_BY(mu_) = false;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  bool watching_ ABSL_GUARDED_BY(mu_) = false;
  LocalTaskEvents events_ ABSL_GUARDED_BY(mu_);
  std::vector<Task> tasks_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coxswain::local
