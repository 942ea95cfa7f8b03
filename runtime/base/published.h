// A value that one thread replaces and many threads read all the time: settings that change rarely.
//
// A reader keeps what it saw last and looks at one atomic number to know whether that still is the
// newest; nothing that readers share is written while the value stays, no lock and no count.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace coxswain {

template <typename T>
class Published {
 public:
  // Thread-safe. Who hears of it, in whatever way, reads this value or a newer one.
  void Set(std::shared_ptr<const T> value) {
    std::shared_ptr<const T> old;  // destroyed without the lock
    absl::MutexLock lock(&mu_);
    old = std::exchange(value_, std::move(value));
    version_.fetch_add(1, std::memory_order_release);
  }

  // Used by one thread at a time.
  class Reader {
   public:
    // The newest value; null before the first. Handles on it share a count with those of this
    // reader only.
    const std::shared_ptr<const T>& Get(const Published& published) {
      if (published.version_.load(std::memory_order_acquire) != seen_) {
        auto own = std::make_shared<std::shared_ptr<const T>>();
        absl::MutexLock lock(&published.mu_);
        seen_ = published.version_.load(std::memory_order_relaxed);
        *own = published.value_;
        const T* value = own->get();
        value_ = std::shared_ptr<const T>(std::move(own), value);
      }
      return value_;
    }

   private:
    uint64_t seen_ = 0;
    std::shared_ptr<const T> value_;
  };

 private:
  mutable absl::Mutex mu_;
  std::atomic<uint64_t> version_{0};
  std::shared_ptr<const T> value_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coxswain
