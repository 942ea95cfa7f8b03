// The log of complete closures with updates, as far back as a checkpoint may need them: when a PS
// is lost, they run again under their ids. Owned by the coordinator's loop.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "coordinator/core/closure.h"

namespace coxswain::core {

class ClosureLog {
 public:
  struct Entry {
    ClosureSpec spec;
    ClosureId after = 0;  // the low-water mark when it was scheduled
    uint64_t order = 0;   // position in the order of addition; Add sets it
  };

  // The most entries, and bytes of their arguments, to keep; beyond this the oldest are dropped,
  // and Covers reports it.
  ClosureLog(int64_t max_entries, int64_t max_bytes)
      : max_entries_(max_entries), max_bytes_(max_bytes) {}

  void Add(ClosureId id, Entry entry);
  // Removes and returns the closures from `first` to below `end`, ascending: they run again, and
  // return with Add.
  std::vector<std::pair<ClosureId, Entry>> Take(ClosureId first, ClosureId end);
  // Drops closures below `first`, which are in every shard of every checkpoint that may be
  // restored. Of many closures, some are dropped in later calls of Trim and Add, so that no call
  // takes long.
  void Trim(ClosureId first);
  // Whether the log has every closure at or above `first` that is complete.
  bool Covers(ClosureId first) const { return first >= first_; }

  // Whether the log has closures of this plan.
  bool Has(PlanId plan) const { return by_plan_.contains(plan); }
  // Plans whose last closure left the log since the last call.
  std::vector<PlanId> TakeGone() { return std::exchange(gone_, {}); }

  const std::map<ClosureId, Entry>& entries() const { return entries_; }
  uint64_t next_order() const { return next_order_; }
  int64_t size() const { return static_cast<int64_t>(entries_.size()); }
  int64_t bytes() const { return bytes_; }  // of arguments

 private:
  // Updates the counts when an entry is added or removed.
  void Count(const Entry& entry);
  void Uncount(const Entry& entry);
  // Drops at most `most` of the entries that are to be dropped.
  void Drop(int most);

  const int64_t max_entries_, max_bytes_;
  int64_t bytes_ = 0;
  ClosureId first_ = 1;
  uint64_t next_order_ = 0;
  std::map<ClosureId, Entry> entries_;
  absl::flat_hash_map<PlanId, int64_t> by_plan_;  // number of entries
  std::vector<PlanId> gone_;
};

}  // namespace coxswain::core
