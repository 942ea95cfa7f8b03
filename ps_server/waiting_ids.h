// How often ids were updated that have no row yet: admission by count.
//
// A fixed number of sets of eight counters; an id has its place in the set of its hash. Counts are
// exact until a set has more than eight ids, then the one that was seen longest ago is forgotten:
// it starts anew. What is remembered does not depend on where in its set an id stands. Memory comes
// with use, at most 16 bytes an id for 524,288 ids.
//
// Thread model: one thread.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

namespace coxswain::ps {

class WaitingIds {
 public:
  static constexpr int64_t kMaxIds = 1 << 19;

  struct Entry {
    int64_t id = 0;
    uint32_t count = 0;  // from 1; 0: nothing is here
    uint32_t seen = 0;   // update of the shard, modulo 2^32
  };

  // Counts an update of the id, which is the shard's `now`-th. True when it is the `wanted`-th: the
  // id is forgotten then. Counts that were not raised for more than `expire` updates (0: never) are
  // not counted.
  bool Count(int64_t id, int64_t now, int64_t wanted, int64_t expire);

  int64_t size() const { return size_; }
  int64_t memory_bytes() const;

  // All that is remembered, for a checkpoint, and back.
  std::vector<Entry> All() const;
  void Restore(const Entry& entry);

 private:
  static constexpr int64_t kWays = 8;
  static constexpr int64_t kSets = kMaxIds / kWays;

  Entry* SetOf(int64_t id);

  std::unique_ptr<Entry[], decltype(&std::free)> entries_{nullptr, &std::free};
  std::vector<uint32_t> used_;  // sets that have had an id
  std::vector<bool> is_used_;
  int64_t size_ = 0;
};

}  // namespace coxswain::ps
