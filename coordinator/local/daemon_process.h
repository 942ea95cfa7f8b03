// A daemon of this machine that this process starts, and starts again at the same address.
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
  std::string directory;  // that holds coxswain-ps and coxswain-worker
  std::string job;        // "ps" or "worker"
  int task = 0;
  int threads = 1;
  std::string log_level;  // empty: the daemon's default
  int err = -1;           // its stderr; -1: this process's
  int secret = -1;        // a descriptor of the cluster's secret, see Secret; -1: it finds one
  bool insecure = false;  // it has none
  // No port: a socket that only processes of this user can reach.
  bool same_user = false;
  // SIGKILL: also a daemon that is stopped just then must not be left behind.
  int death_signal = SIGKILL;
};

// Thread model: one thread, which lives as long as the daemon; see Child.
class DaemonProcess {
 public:
  // Starts it at a loopback port, which is kept for it from now on, also while it is away; or at a
  // socket with a name of its own. So several can start at the same time; AwaitReady tells when it
  // listens.
  // Errors: those of Child::Start; Unavailable when no port can be had.
  static absl::StatusOr<DaemonProcess> Begin(const DaemonLaunch& launch);
  // Waits until it listens. If somebody else has got the port, it is started at another one.
  // Errors: DeadlineExceeded: it does not tell its port in time; Unavailable: it ended, and how.
  absl::Status AwaitReady();
  // Starts it again, after it ended. Returns before it listens.
  absl::Status Restart();

  // "/job:ps/task:1", for messages.
  std::string name() const;
  // "host:port" or "local:NAME"; after AwaitReady.
  const std::string& address() const { return address_; }
  Incarnation incarnation() const { return incarnation_; }
  // What the next Restart starts. It is known before, so that nobody mistakes another process at
  // the address for it.
  Incarnation next_incarnation() const { return next_incarnation_; }
  Child& child() { return child_; }
  const Child& child() const { return child_; }

 private:
  explicit DaemonProcess(const DaemonLaunch& launch);
  absl::Status StartAtNewAddress();
  absl::Status Start(int out);

  DaemonLaunch launch_;
  std::string address_;
  std::vector<std::string> listen_;  // the flags that say where
  net::UniqueFd port_;  // bound, so that nobody else is given the port while the daemon is away
  net::UniqueFd out_;   // the reading end of its first stdout; daemons print one line
  Incarnation incarnation_ = 0, next_incarnation_ = 0;
  Child child_;
};

}  // namespace coxswain::local
