// What names one coordinator's hold on a cluster.
#pragma once

#include <cstdint>

#include "runtime/base/ids.h"
#include "runtime/base/stable_hash.h"

namespace coxswain {

// Epoch and nonce in one number, which everything that is sent in the session carries. 0: none.
using SessionId = Id<struct SessionTag, uint64_t>;

// Two coordinators may pick the same epoch, as no clock decides; the nonce tells them apart.
struct Session {
  Epoch epoch = 0;     // 0: not chosen yet
  uint64_t nonce = 0;  // random
  bool chosen() const { return epoch != 0; }
  // For one epoch a permutation of the nonces, but for what would be 0.
  SessionId id() const {
    const uint64_t x = SplitMixFinish(nonce + epoch * kSplitMixStep);
    return x == 0 ? 1 : x;
  }
  friend bool operator==(const Session&, const Session&) = default;
};

// Epochs beyond are no coordinator's: one adds 1 to the highest that it is told of.
constexpr Epoch kMaxEpoch = Epoch{1} << 62;

// The epoch after `highest`. Whatever that is, there is one.
constexpr Epoch NextEpoch(Epoch highest) { return highest >= kMaxEpoch ? 1 : highest + 1; }

}  // namespace coxswain
