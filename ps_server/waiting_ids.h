// Counts the updates of ids that have no row yet, for admission by count.
//
// A fixed number of sets of eight counters; an id belongs to the set of its hash. Counts are exact
// until a set has more than eight ids; then the id that was seen longest ago is forgotten, and its
// count starts from zero. The state does not depend on the order of ids within a set. Memory grows
// with use, to at most 16 bytes per id for 524,288 ids.
//
// Thread model: one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "ps_server/storage.h"

namespace coxswain::ps {

class WaitingIds {
 public:
  static constexpr int64_t kMaxIds = 1 << 19;

  struct Entry {
    int64_t id = 0;
    uint32_t count = 0;  // from 1; 0: the entry is empty
    uint32_t seen = 0;   // number of the shard's last update with the id, modulo 2^32
  };

  // Before the first Count or Restore: has the memory ready that these use. Errors:
  // ResourceExhausted.
  absl::Status Reserve();

  // Counts an update of the id, the shard's `now`-th update. True when it is the id's `wanted`-th;
  // the id is then forgotten. Counts that have not grown for more than `expire` updates (0: never)
  // have expired.
  bool Count(int64_t id, int64_t now, int64_t wanted, int64_t expire);

  int64_t size() const { return size_; }
  int64_t memory_bytes() const;

  // All entries, for a checkpoint; and restoring them.
  std::vector<Entry> All() const;
  void Restore(const Entry& entry);

 private:
  static constexpr int64_t kWays = 8;
  static constexpr int64_t kSets = kMaxIds / kWays;

  Entry* SetOf(int64_t id);

  Zeros<Entry> entries_{nullptr, &std::free};
  std::vector<uint32_t> used_;  // sets that have ever had an id
  std::vector<bool> is_used_;
  int64_t size_ = 0;
};

}  // namespace coxswain::ps
