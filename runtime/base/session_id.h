// Identifies one coordinator's hold on a cluster.
#pragma once

#include <cstdint>

#include "runtime/base/ids.h"
#include "runtime/base/stable_hash.h"

namespace coxswain {

// Epoch and nonce in one number, which everything that is sent in the session carries. 0: none.
using SessionId = Id<struct SessionTag, uint64_t>;

// Two coordinators may pick the same epoch, because no clock decides; the nonce distinguishes them.
struct Session {
  Epoch epoch = 0;     // 0: not chosen yet
  uint64_t nonce = 0;  // random
  bool chosen() const { return epoch != 0; }
  // For a given epoch, a permutation of the nonces, except for the value that would be 0.
  SessionId id() const {
    const uint64_t x = SplitMixFinish(nonce + epoch * kSplitMixStep);
    return x == 0 ? 1 : x;
  }
  friend bool operator==(const Session&, const Session&) = default;
};

// No coordinator has an epoch beyond this: a coordinator adds 1 to the highest epoch that it is
// told.
constexpr Epoch kMaxEpoch = Epoch{1} << 62;

// The epoch after `highest`, defined for every value.
constexpr Epoch NextEpoch(Epoch highest) { return highest >= kMaxEpoch ? 1 : highest + 1; }

}  // namespace coxswain
