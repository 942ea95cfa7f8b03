// A daemon that faults are done to, and that comes back at the same address.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/local/child.h"
#include "coordinator/local/daemon_process.h"
#include "runtime/net/unique_fd.h"

namespace coxswain::chaos {

// Thread model: one thread; see Child.
class ManagedTask {
 public:
  // Starts coxswain-ps or coxswain-worker of `directory` on a loopback port that it keeps for it.
  // Its output goes to `log`. The daemon ends with the thread that called this.
  // Errors: those of DaemonProcess, and of a log that cannot be written.
  static absl::StatusOr<ManagedTask> Launch(const std::string& directory, const std::string& job,
                                            int task, int threads, const std::string& log);
  // Takes over a daemon of this machine that runs already, as process `pid`. It will be started as
  // it was: the same command, directory, environment and output.
  // Errors: NotFound or PermissionDenied when the process is not to be had.
  static absl::StatusOr<ManagedTask> Adopt(const std::string& name, const std::string& address,
                                           pid_t pid);

  const std::string& name() const { return name_; }        // "ps:0"
  const std::string& address() const { return address_; }  // "host:port"
  pid_t pid() const { return adopted_ > 0 ? adopted_ : child().pid(); }
  bool running();
  // How it ended, as Child::Poll; nothing when nobody can know (it was started by others).
  std::optional<int> code() { return adopted_ > 0 ? std::nullopt : child().Poll(); }
  void Signal(int number);
  // Starts it again, after it ended.
  absl::Status Restart();
  // False: it still runs when `timeout` is over.
  bool WaitFor(absl::Duration timeout);
  // It goes on when this object goes.
  void Release() { child().Detach(); }

 private:
  ManagedTask() = default;

  local::Child& child() { return own_ ? own_->child() : child_; }
  const local::Child& child() const { return own_ ? own_->child() : child_; }

  std::string name_, address_;
  net::UniqueFd out_, err_;
  std::optional<local::DaemonProcess> own_;  // that was started here
  // One that was taken over: how it is started again, and the process of that.
  local::ChildOptions options_;
  local::Child child_;
  pid_t adopted_ = -1;         // not our child, as long as it lives
  std::string adopted_start_;  // when it started: process ids are used again
};

}  // namespace coxswain::chaos
