// Starts the daemons of a cluster on this machine, restarts them when they end, and ends them.
#pragma once

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
#include "coordinator/local/task_watch.h"

namespace coxswain::local {

// Thread-safe. All processes are children of a separate thread: the system ends them with the
// thread that started them (PR_SET_PDEATHSIG), and the caller's thread may end earlier than the
// cluster.
class TaskKeeper {
 public:
  explicit TaskKeeper(const RestartPolicy& policy) : policy_(policy) {}
  // Sends SIGTERM to all, and SIGKILL to those that do not end in time.
  ~TaskKeeper();
  TaskKeeper(const TaskKeeper&) = delete;
  TaskKeeper& operator=(const TaskKeeper&) = delete;

  // Starts all daemons and waits until they listen. Called once. Errors: those of DaemonProcess.
  absl::Status Start(std::vector<DaemonLaunch> launches);
  // The addresses in the order of the launches. To be called after Start.
  std::vector<std::string> Addresses() const;
  // The process at each address now.
  std::map<std::string, Incarnation> Incarnations() const;

  // From now on tasks that end, or have ended, are restarted, and `events` are called, one at a
  // time.
  void Watch(LocalTaskEvents events);
  // No task is restarted any more, and no event is called after this has returned: it waits for the
  // one under way, if there is one, unless that is the caller.
  void StopWatching();

 private:
  struct Task {
    DaemonProcess process;
    bool ps = false;
    RestartBudget budget;
    bool up = true;
    bool given_up = false;
    absl::Duration restart_at = absl::ZeroDuration();  // time of the restart while it is not up; on
                                                       // Now()'s clock
  };

  // On the thread, without the lock: events may take locks of their own, and a start takes a while.
  void Run(const std::vector<DaemonLaunch>& launches, absl::Status* started);
  absl::Status StartAll(const std::vector<DaemonLaunch>& launches);
  // Handles tasks that have ended and restarts those that are due. Returns when to call it
  // again, unless a task ends before.
  absl::Duration Tend(absl::Duration now);
  void OnEnd(Task* task, const std::string& how, absl::Duration now);
  void Restart(Task* task, absl::Duration now);
  bool AllGivenUp(bool ps) const;
  void Wait(absl::Duration until);
  void EndAll();
  // Shows other threads which processes there are.
  void Publish() ABSL_LOCKS_EXCLUDED(mu_);

  void Wake() const;

  const RestartPolicy policy_;
  net::UniqueFd wake_;
  std::thread thread_;
  TaskWatch watch_;
  std::vector<Task> tasks_;  // belong to the thread
  mutable absl::Mutex mu_;
  bool started_ ABSL_GUARDED_BY(mu_) = false;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::string> addresses_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Incarnation> incarnations_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coxswain::local
