// The closures with updates that are complete, as far back as a checkpoint may need them: when a PS
// is lost, they run again under their ids. Owned by the coordinator's loop.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "coordinator/core/closure.h"

namespace coxswain {

class ClosureLog {
 public:
  struct Entry {
    ClosureSpec spec;
    ClosureId after = 0;  // the low-water mark when it was scheduled
  };

  // At most so many entries, and bytes of their arguments; beyond it the oldest are dropped, and
  // Covers tells.
  ClosureLog(int64_t max_entries, int64_t max_bytes)
      : max_entries_(max_entries), max_bytes_(max_bytes) {}

  void Add(ClosureId id, Entry entry);
  // Takes out all at or above `first`, ascending: they run again, and come back with Add.
  std::vector<std::pair<ClosureId, Entry>> TakeFrom(ClosureId first);
  // Forgets what is below; it is in every shard of every checkpoint that counts.
  void Trim(ClosureId first);
  // Whether everything that completed at or above `first` is here.
  bool Covers(ClosureId first) const { return first >= first_; }

  const std::map<ClosureId, Entry>& entries() const { return entries_; }
  int64_t size() const { return static_cast<int64_t>(entries_.size()); }
  int64_t bytes() const { return bytes_; }  // of arguments

 private:
  const int64_t max_entries_, max_bytes_;
  int64_t bytes_ = 0;
  ClosureId first_ = 1;
  std::map<ClosureId, Entry> entries_;
};

}  // namespace coxswain
