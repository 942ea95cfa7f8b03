// Runs the code that collects families. The threads of civetweb have stacks of 100 KiB, on which
// nothing of ours may run: whoever posts to a loop may have to run what waits there.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "runtime/env/without_signals.h"
#include "runtime/metrics/family.h"

namespace coxswain::metrics {

class CollectThread {
 public:
  explicit CollectThread(std::function<Families()> collect) : collect_(std::move(collect)) {
    const env::WithoutSignals inherited;
    thread_ = std::thread([this] { Serve(); });
  }
  // Waits for a collection that runs; whoever waits for its result gets nothing.
  ~CollectThread() {
    Stop();
    thread_.join();
  }

  // What a collection that began after this call returned; nothing once Stop was called. On any
  // thread.
  Families Ask() {
    absl::MutexLock lock(&mu_);
    const uint64_t mine = ++asked_;
    const auto answered = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return stop_ || answered_ >= mine;
    };
    mu_.Await(absl::Condition(&answered));
    return stop_ ? Families() : families_;
  }
  void Stop() {
    absl::MutexLock lock(&mu_);
    stop_ = true;
  }

 private:
  void Serve() {
    absl::MutexLock lock(&mu_);
    const auto wanted = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return stop_ || asked_ > answered_;
    };
    while (true) {
      mu_.Await(absl::Condition(&wanted));
      if (stop_) return;
      const uint64_t asked = asked_;
      mu_.Unlock();
      Families families = collect_();
      mu_.Lock();
      families_ = std::move(families);
      answered_ = asked;
    }
  }

  const std::function<Families()> collect_;
  absl::Mutex mu_;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t asked_ ABSL_GUARDED_BY(mu_) = 0, answered_ ABSL_GUARDED_BY(mu_) = 0;
  Families families_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace coxswain::metrics
