// What a worker tells Prometheus.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "protos/control.pb.h"
#include "runtime/metrics/family.h"

namespace coxswain::worker {

// Counts attempts of closures that have ended, since the process began. Thread-safe.
struct AttemptsEnded {
  std::atomic<uint64_t> completed{0};
  std::atomic<uint64_t> failed{0};
  std::atomic<uint64_t> cancelled{0};
  std::atomic<uint64_t> task_lost{0};  // a parameter server was, and the coordinator tries again
  std::atomic<uint64_t> steps{0};      // of them all

  void Count(const absl::Status& status, uint64_t steps_done);
};

struct WorkerReading {
  const AttemptsEnded* ended = nullptr;
  size_t running = 0;  // closures
  struct Traffic {
    uint64_t sent = 0, received = 0;  // bytes
  };
  std::map<int, Traffic> traffic;  // by PS
  struct Gpu {
    std::string name;
    int64_t memory_bytes = 0;
  };
  std::vector<Gpu> gpus;
};

metrics::Families WorkerFamilies(absl::string_view prefix, const proto::TaskStatus& status,
                                 const WorkerReading& reading);

}  // namespace coxswain::worker
