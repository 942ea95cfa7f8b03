// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"): a counter-based
// random source. Block i of a stream is a function of the key and i alone, so any part of a tensor
// can be drawn by any thread, and again later.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/base/stable_hash.h"

namespace coxswain {

using PhiloxBlock = std::array<uint32_t, 4>;

// `counter` and `stream` together are the 128-bit counter.
inline PhiloxBlock Philox(uint64_t key, uint64_t stream, uint64_t counter) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  PhiloxBlock x = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                   static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * x[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * x[2];
    x = {static_cast<uint32_t>(p1 >> 32) ^ x[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ x[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return x;
}

// The key of what a node draws in one step. With the closure as the stream, a closure that is run
// again draws the same numbers.
inline uint64_t PhiloxKey(uint64_t job_seed, uint64_t node_seed, uint64_t step) {
  return Mix64(Mix64(Mix64(job_seed) ^ node_seed) ^ step);
}

}  // namespace coxswain
