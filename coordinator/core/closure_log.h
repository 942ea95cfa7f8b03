// The closures with updates that are complete, as far back as a checkpoint may need them: when a PS
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
    uint64_t order = 0;   // in which they were added; Add sets it
  };

  // The most entries, and bytes of their arguments, that are kept; beyond it the oldest are
  // dropped, and Covers tells.
  ClosureLog(int64_t max_entries, int64_t max_bytes)
      : max_entries_(max_entries), max_bytes_(max_bytes) {}

  void Add(ClosureId id, Entry entry);
  // Takes out those from `first` to below `end`, ascending: they run again, and come back with Add.
  std::vector<std::pair<ClosureId, Entry>> Take(ClosureId first, ClosureId end);
  // Forgets what is below; it is in every shard of every checkpoint that counts. Where it is much,
  // the last of it goes with later calls of Trim and Add, so that none takes long.
  void Trim(ClosureId first);
  // Whether everything that completed at or above `first` is here.
  bool Covers(ClosureId first) const { return first >= first_; }

  // Whether it has closures of this plan.
  bool Has(PlanId plan) const { return by_plan_.contains(plan); }
  // Plans whose last closure has gone from here since the last call.
  std::vector<PlanId> TakeGone() { return std::exchange(gone_, {}); }

  const std::map<ClosureId, Entry>& entries() const { return entries_; }
  uint64_t next_order() const { return next_order_; }
  int64_t size() const { return static_cast<int64_t>(entries_.size()); }
  int64_t bytes() const { return bytes_; }  // of arguments

 private:
  // An entry comes in its place, or goes.
  void Count(const Entry& entry);
  void Uncount(const Entry& entry);
  // Forgets at most `most` of those that are to be dropped.
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
