// Counts the updates of ids that have no row yet, for admission by count.
//
// An id belongs to one of a fixed number of sets, by its hash. Counts are exact until a set has
// more than kWays ids, which as good as never happens before kMostExact wait; then the id of the
// set that was seen longest ago is forgotten, and its count starts from zero. So memory is bounded,
// whatever number of ids comes once and never again. Those whose counts have expired go when
// another id comes to their set.
//
// Memory grows with use, 16 bytes an id in blocks of kBlockIds: a set is a chain of blocks, in
// which its ids stand without gaps. Nothing is ever moved to a larger place, so growing causes no
// pause.
//
// The state is a function of the sequence of Counts; what ForEach visits restores it to the bit.
//
// Thread model: one thread.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "ps_server/growing_storage.h"
#include "ps_server/storage.h"

namespace coxswain::ps {

class WaitingIds {
 public:
  static constexpr int64_t kWays = 63;
  static constexpr int64_t kSets = 1 << 17;
  static constexpr int64_t kMaxIds = kSets * kWays;
  static constexpr int64_t kMostExact = kMaxIds / 2;

  struct Entry {
    int64_t id = 0;
    uint32_t count = 0;  // from 1; 0: the entry is empty
    uint32_t seen = 0;   // number of the shard's last update with the id, modulo 2^32
  };

  // `sets`: a power of two; other numbers than kSets are for tests.
  explicit WaitingIds(int64_t sets = kSets) : sets_(sets) {}

  // Has the memory ready that `n` calls of Count or Restore use. Errors: ResourceExhausted; then
  // nothing has changed.
  absl::Status Reserve(int64_t n);

  // Counts an update of the id, the shard's `now`-th update. True when it is the id's `wanted`-th;
  // the id is then forgotten. Counts that have not grown for more than `expire` updates (0: never)
  // have expired.
  bool Count(int64_t id, int64_t now, int64_t wanted, int64_t expire);

  int64_t size() const { return size_; }
  // Ids whose counts had not expired, and that went because their sets were full.
  int64_t forgotten() const { return forgotten_; }
  int64_t memory_bytes() const;

  // All entries, for a checkpoint; and restoring them, in this order.
  void ForEach(absl::FunctionRef<void(const Entry&)> visit) const;
  void Restore(const Entry& entry);

 private:
  static constexpr int64_t kBlockIds = 7;
  struct Block {
    uint32_t next;  // of the set, as a number from 1; 0: it is the last one
    uint32_t unused[3];
    Entry entries[kBlockIds];
  };
  static_assert(sizeof(Block) == 128);
  static constexpr int64_t kBlocksOfSet = kWays / kBlockIds;
  static_assert(kBlocksOfSet * kBlockIds == kWays);

  size_t SetOf(int64_t id) const;
  Block& At(uint32_t block) const;
  // What tells the block of the set's entry number `at`; also of the one behind the last.
  uint32_t* BlockOf(size_t set, int64_t at);
  // The set has room for one more.
  void Append(size_t set, const Entry& entry);
  // What stands at the end of the set takes the place of the one that goes.
  void Remove(size_t set, Entry* entry);
  void RemoveIf(size_t set, absl::FunctionRef<bool(const Entry&)> goes);
  uint32_t TakeBlock();

  int64_t sets_;
  Zeros<uint32_t> first_{nullptr, &std::free};  // block of each set, as Block::next
  Zeros<uint8_t> sizes_{nullptr, &std::free};   // ids of each set
  GrowingStorage blocks_;
  int64_t taken_ = 0;  // blocks that are, or were, of some set
  uint32_t free_ = 0;  // of these, the first one that is of none, as Block::next
  int64_t num_free_ = 0;
  int64_t size_ = 0;
  int64_t forgotten_ = 0;
};

}  // namespace coxswain::ps
