// A daemon on this machine that this process starts, and restarts at the same address.
#pragma once

#include <signal.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/local/child.h"
#include "runtime/base/ids.h"
#include "runtime/net/unique_fd.h"

namespace coxswain::local {

struct DaemonLaunch {
  std::string directory;  // the directory of coxswain-ps and coxswain-worker
  std::string job;        // "ps" or "worker"
  int task = 0;
  int threads = 1;
  std::string log_level;  // empty: the daemon's default
  int err = -1;           // its stderr; -1: this process's
  int secret = -1;        // a descriptor of the cluster's secret, see Secret; -1: the daemon looks
                          // for one
  bool insecure = false;  // it has no secret
  // It listens on a socket that only processes of this user can reach, without a port.
  bool same_user = false;
  // SIGKILL, because even a stopped daemon must not be left behind.
  int death_signal = SIGKILL;
};

// Thread model: one thread, which lives as long as the daemon; see Child.
class DaemonProcess {
 public:
  // Starts the daemon at a loopback port, which stays reserved for it even while it is away, or at
  // a socket with a new name. Does not wait, so that several daemons can start at the same time;
  // AwaitReady waits until it listens. Errors: those of Child::Start; Unavailable when no port is
  // free.
  static absl::StatusOr<DaemonProcess> Begin(const DaemonLaunch& launch);
  // Waits until the daemon listens. If another process has taken the port, it is started at another
  // one. Errors: DeadlineExceeded when it does not print its port in time; Unavailable when it
  // ended, with how.
  absl::Status AwaitReady();
  // Starts it again, after it ended. Returns before it listens.
  absl::Status Restart();

  // "/job:ps/task:1", for messages.
  std::string name() const;
  // "host:port" or "local:NAME"; after AwaitReady.
  const std::string& address() const { return address_; }
  Incarnation incarnation() const { return incarnation_; }
  // The incarnation that the next Restart starts. It is known in advance, so that another process
  // at the address is not mistaken for it.
  Incarnation next_incarnation() const { return next_incarnation_; }
  Child& child() { return child_; }
  const Child& child() const { return child_; }

 private:
  explicit DaemonProcess(const DaemonLaunch& launch);
  absl::Status StartAtNewAddress();
  absl::Status Start(int out);

  DaemonLaunch launch_;
  std::string address_;
  std::vector<std::string> listen_;  // the flags for its address
  net::UniqueFd port_;  // bound, so that no other process gets the port while the daemon is away
  net::UniqueFd out_;   // the reading end of its first stdout; daemons print one line
  Incarnation incarnation_ = 0, next_incarnation_ = 0;
  Child child_;
};

}  // namespace coxswain::local
