#include "kernels/cuda/random_key.h"

#include "kernels/cpu/philox.h"

namespace coxswain::cuda {

uint64_t RandomKey(uint64_t closure_seed, uint64_t node_seed, uint64_t step) {
  return kernels::PhiloxKey(closure_seed, node_seed, step);
}

}  // namespace coxswain::cuda
