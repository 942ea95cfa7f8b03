// The key of what a random op draws in a run: as on the CPU.
#pragma once

#include <stdint.h>

namespace coxswain::cuda {

uint64_t RandomKey(uint64_t closure_seed, uint64_t node_seed, uint64_t step);

}  // namespace coxswain::cuda
