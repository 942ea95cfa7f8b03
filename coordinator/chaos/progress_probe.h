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

namespace coxswain {

// Thread model: thread-safe; asks on a thread of its own, a few times a second.
class ProgressProbe {
 public:
  explicit ProgressProbe(std::vector<std::string> ps_addresses);
  ~ProgressProbe();

  struct Reading {
    int64_t seen = 0;  // times that steps were seen to be taken
    Epoch epoch = 0;   // of the session that took the last ones
    absl::Time last;   // when that was
  };
  Reading Read() const;

 private:
  struct Counter {
    Incarnation incarnation = 0;
    Epoch epoch = 0;
    uint64_t segments = 0;
  };
  void Run();

  const std::vector<std::string> addresses_;
  mutable absl::Mutex mu_;
  Reading reading_ ABSL_GUARDED_BY(mu_);
  absl::Notification stop_;
  std::thread thread_;
};

}  // namespace coxswain
