// Watches from outside whether a cluster takes training steps, by asking its parameter servers.
#pragma once

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "runtime/base/ids.h"
#include "runtime/net/credentials.h"

namespace coxswain::chaos {

// Thread model: thread-safe; asks on a thread of its own, every `interval`.
class ProgressProbe {
 public:
  ProgressProbe(std::vector<std::string> ps_addresses, net::Credentials credentials,
                absl::Duration interval);
  ~ProgressProbe();

  struct Reading {
    int64_t seen = 0;     // times that steps were seen to be taken
    std::string holder;   // the coordinator that took the last ones, "host:pid"
    absl::Time last;      // when that was
    int64_t updates = 0;  // the most that a shard was ever seen to have taken
  };
  Reading Read() const;

 private:
  struct Counter {
    Incarnation incarnation = 0;
    std::string holder;
    uint64_t segments = 0;
  };
  void Run();

  const std::vector<std::string> addresses_;
  const net::Credentials credentials_;
  const absl::Duration interval_;
  mutable absl::Mutex mu_;
  Reading reading_ ABSL_GUARDED_BY(mu_);
  absl::Notification stop_;
  std::thread thread_;
};

}  // namespace coxswain::chaos
