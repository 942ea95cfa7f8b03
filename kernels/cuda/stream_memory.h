// Memory of one stream that was given back, for the next one who wants memory of that stream: what
// a stream is asked later it does later, so nothing has to be waited for. A step wants some hundred
// pieces and gives all of them back; asking CUDA each time was a fifth of its host time.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <mutex>
#include <unordered_map>
#include <vector>

namespace coxswain::cuda {

// Thread-safe. Knows addresses and sizes; who uses it allocates and frees.
class StreamMemory {
 public:
  // Keeps at most this many bytes.
  explicit StreamMemory(size_t most) : most_(most) {}

  // What to allocate for so many bytes, at least 1: sizes that differ by less than an eighth are
  // one as a rule, so that a step with some more rows than the last one finds what it wants. What
  // is too large to be kept stays as it is.
  size_t Rounded(size_t bytes) const {
    if (bytes > most_) return bytes;
    size_t step = kSmallest;
    while (bytes > 8 * step) step *= 2;
    const size_t rounded = (bytes + step - 1) / step * step;
    return rounded > most_ ? bytes : rounded;
  }

  // Memory of that size, by Rounded, that was kept; null: there is none.
  void* Take(size_t rounded) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto kept = kept_.find(rounded);
    if (kept == kept_.end() || kept->second.empty()) return nullptr;
    void* const memory = kept->second.back();
    lent_[memory] = rounded;
    kept->second.pop_back();
    kept_bytes_ -= rounded;
    return memory;
  }
  // Memory of that size was allocated, and is lent.
  void Lend(void* memory, size_t rounded) {
    const std::lock_guard<std::mutex> lock(mutex_);
    lent_[memory] = rounded;
  }
  // Takes back what was lent. False: it is not kept, and to be freed. `surplus` gets what is to be
  // freed in its stead, if there is too much: all, for nobody seems to want these sizes any more.
  bool Keep(void* memory, std::vector<void*>* surplus) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto lent = lent_.find(memory);
    if (lent == lent_.end()) return false;
    const size_t size = lent->second;
    lent_.erase(lent);
    if (size > most_) return false;
    try {
      if (size > most_ - kept_bytes_) *surplus = TakeAll();
      kept_[size].push_back(memory);
    } catch (...) {
      return false;
    }
    kept_bytes_ += size;
    return true;
  }
  // All that is kept: to be freed.
  std::vector<void*> TakeKept() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return TakeAll();
  }
  size_t kept_bytes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return kept_bytes_;
  }

 private:
  static constexpr size_t kSmallest = 512;

  std::vector<void*> TakeAll() {
    std::vector<void*> all;
    for (const auto& [size, kept] : kept_) all.insert(all.end(), kept.begin(), kept.end());
    kept_.clear();
    kept_bytes_ = 0;
    return all;
  }

  const size_t most_;
  std::mutex mutex_;
  size_t kept_bytes_ = 0;
  std::unordered_map<size_t, std::vector<void*>> kept_;  // by size
  std::unordered_map<void*, size_t> lent_;               // their sizes
};

}  // namespace coxswain::cuda
