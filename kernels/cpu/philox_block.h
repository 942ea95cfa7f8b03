// One block of Philox4x32-10; see philox.h. It includes nothing of Coxswain's, so that CUDA's
// compiler takes it, too: GPUs draw the same numbers.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define COX_HOST_DEVICE __host__ __device__
#else
#define COX_HOST_DEVICE
#endif

namespace coxswain::kernels {

struct PhiloxBlock {
  uint32_t words[4];

  COX_HOST_DEVICE uint32_t operator[](int64_t i) const { return words[i]; }
  bool operator==(const PhiloxBlock&) const = default;
};

// `counter` and `high` are the 128-bit counter.
COX_HOST_DEVICE inline PhiloxBlock Philox(uint64_t key, uint64_t counter, uint64_t high = 0) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  PhiloxBlock x = {{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                    static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32)}};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * x.words[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * x.words[2];
    x = {{static_cast<uint32_t>(p1 >> 32) ^ x.words[1] ^ k0, static_cast<uint32_t>(p1),
          static_cast<uint32_t>(p0 >> 32) ^ x.words[3] ^ k1, static_cast<uint32_t>(p0)}};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return x;
}

}  // namespace coxswain::kernels
