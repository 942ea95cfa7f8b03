// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"): a counter-based
// random source. Block i of a stream is a function of the key and i alone, so any part of a tensor
// can be drawn by any thread, and again later.
#pragma once

#include <cstdint>

#include "kernels/cpu/philox_block.h"
#include "runtime/base/stable_hash.h"

namespace coxswain::kernels {

// The key of what a node draws in one step of a closure. A closure that is run again has the same
// seed, so it draws the same numbers.
inline uint64_t PhiloxKey(uint64_t closure_seed, uint64_t node_seed, uint64_t step) {
  return Mix64(Mix64(Mix64(closure_seed) ^ node_seed) ^ step);
}

}  // namespace coxswain::kernels
