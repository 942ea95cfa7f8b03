// The hash of a hash table's ids: which shard holds an id, and where it stands in that shard's
// index. Checkpoints and saved models depend on its values, so they never change. In Python:
//
//   def shard_of(id, count):
//       x = (id + 0x9e3779b97f4a7c15) % 2**64
//       x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 % 2**64
//       x = (x ^ x >> 27) * 0x94d049bb133111eb % 2**64
//       return (x ^ x >> 31) * count >> 64
#pragma once

#include <cstdint>

#include "runtime/base/stable_hash.h"

namespace coxswain {

// A bijection.
inline uint64_t HashId(int64_t id) { return Mix64(static_cast<uint64_t>(id)); }

// Which of `count` shards holds the id. Uses the hash's high bits; indexes use the low ones.
inline int64_t HashShard(int64_t id, int64_t count) {
  return static_cast<int64_t>(
      (static_cast<unsigned __int128>(HashId(id)) * static_cast<uint64_t>(count)) >> 64);
}

}  // namespace coxswain
