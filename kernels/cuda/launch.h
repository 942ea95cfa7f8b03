// How kernels are written and started, so that one source runs on a GPU and, for tests, on the
// host.
//
// nvcc makes real kernels of this. Any other compiler makes loops: a block after the other, and in
// it a thread after the other. So what a kernel computes and which memory it touches are checked
// without a GPU; what a race would do is not. That is why the form leaves little room for races:
//
//   struct Kernel {  // copied to the device: plain values and device pointers
//     COX_DEVICE void operator()(const Block& block, int64_t item) const {
//       T* memory = block.shared<T>();
//       PerThread<T> sum;                            // a register of each thread
//       block.Phase([&](int t) { sum[t] = ...; });   // all threads, then a barrier
//       block.Combine<256>(&sum, Plus());            // now each thread has the sum of all
//       block.Phase([&](int t) { memory[t] = sum[t] ... });
//     }
//   };
//   RETURN(LaunchBlocks(stream, items, bytes of shared memory, Kernel{...}));
//
// - A thread reads what another one wrote only in a later Phase or through a collective (Combine,
//   Match). Outside of them stand only values that are the same in all threads of a block: loops
//   and conditions around a Phase depend on nothing else.
// - What the host calls, too, is COX_BOTH. nvcc does not say so where it is COX_DEVICE: the
//   host's copy of that calls exit(), for which a test looks in the plugin.
// - A block runs any number of items. Most kernels need no block at all: FillElements and
//   ForElements run a function of an index.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/status.h"

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#define COX_DEVICE __device__ __forceinline__
#define COX_BOTH __host__ __device__ __forceinline__  // for the host, too
#define COX_UNROLL _Pragma("unroll")
#define COX_PRAGMA(text) _Pragma(#text)
#define COX_UNROLL_BY(n) COX_PRAGMA(unroll n)  // so that several loads are under way
#else
#include <algorithm>
#include <atomic>
#include <iterator>
#include <vector>
#define COX_DEVICE inline
#define COX_BOTH inline
#define COX_UNROLL
#define COX_UNROLL_BY(n)
#endif

namespace coxswain::cuda {

constexpr int kWarp = 32;
constexpr int kThreads = 256;  // of every block

// Where kernels are enqueued: a cudaStream_t, or nothing on the host.
struct Queue {
  void* stream = nullptr;
};

// A value of each thread of a block, by the thread's number.
template <typename T>
class PerThread {
 public:
#if defined(__CUDACC__)
  COX_DEVICE T& operator[](int) { return value_; }
  COX_DEVICE const T& operator[](int) const { return value_; }

 private:
  T value_;
#else
  T& operator[](int t) { return values_.at(static_cast<size_t>(t)); }
  const T& operator[](int t) const { return values_.at(static_cast<size_t>(t)); }

 private:
  std::vector<T> values_ = std::vector<T>(kThreads);
#endif
};

#if defined(__CUDACC__)

class Block {
 public:
  template <typename F>
  COX_DEVICE void Phase(const F& f) const {
    f(static_cast<int>(threadIdx.x));
    __syncthreads();
  }
  // Without the barrier, for threads that have nothing to do with each other.
  template <typename F>
  COX_DEVICE void Apart(const F& f) const {
    f(static_cast<int>(threadIdx.x));
  }

  template <typename T>
  COX_DEVICE T* shared() const {
    extern __shared__ __align__(16) unsigned char memory[];
    return reinterpret_cast<T*>(memory);
  }

  // Each thread's value becomes that of its team, kTeam threads in a row (a warp or the block),
  // joined in a fixed order. `join` is commutative.
  template <int kTeam, typename T, typename Join>
  COX_DEVICE void Combine(PerThread<T>* values, const Join& join) const {
    static_assert(kTeam == kWarp || kTeam == kThreads);
    T value = (*values)[0];
    COX_UNROLL
    for (int apart = kWarp / 2; apart > 0; apart /= 2) {
      value = join(value, __shfl_xor_sync(0xffffffffu, value, apart));
    }
    if constexpr (kTeam == kThreads) {
      __shared__ T of_warps[kThreads / kWarp];
      if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = value;
      __syncthreads();
      value = of_warps[0];
      COX_UNROLL
      for (int warp = 1; warp < kThreads / kWarp; ++warp) value = join(value, of_warps[warp]);
      __syncthreads();
    }
    (*values)[0] = value;
  }

  // For each thread the lanes of its warp that have the same key, a bit for each.
  COX_DEVICE void Match(const PerThread<uint32_t>& keys, PerThread<uint32_t>* lanes) const {
    (*lanes)[0] = __match_any_sync(0xffffffffu, keys[0]);
  }
};

COX_DEVICE int BitCount(uint32_t bits) { return __popc(bits); }
COX_DEVICE void AtomicAdd(uint32_t* sum, uint32_t value) { atomicAdd(sum, value); }
// Sets *value to `wanted` if it is 0; true if this call did.
COX_DEVICE bool AtomicClaim(int32_t* value, int32_t wanted) {
  // Of many threads most see that it is taken, and need not queue for the atomic.
  if (*const_cast<volatile int32_t*>(value) != 0) return false;
  return atomicCAS(value, 0, wanted) == 0;
}

template <typename Kernel>
__global__ void __launch_bounds__(kThreads)
    RunBlocks(const __grid_constant__ Kernel kernel, int64_t items) {
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x) kernel(Block(), item);
}

// Blocks of one launch; each runs the items that lie this far apart.
constexpr int64_t kMostBlocks = 65536;

Status StatusOfLaunch();  // in device_cuda.cu

template <typename Kernel>
Status LaunchBlocks(const Queue& queue, int64_t items, size_t shared_bytes, const Kernel& kernel) {
  if (items <= 0) return Status();
  const auto blocks = static_cast<unsigned>(items < kMostBlocks ? items : kMostBlocks);
  RunBlocks<<<blocks, kThreads, shared_bytes, static_cast<cudaStream_t>(queue.stream)>>>(kernel,
                                                                                         items);
  return StatusOfLaunch();
}

#else

// Whether the threads of a block run from the last to the first: no result may depend on it.
inline std::atomic<bool> backwards{false};
// Kernels that were started.
inline std::atomic<int64_t> launches{0};

class Block {
 public:
  // Shared memory begins as garbage: of floats, NaN.
  explicit Block(size_t shared_bytes) : memory_((shared_bytes + 15) / 16) {
    for (Unit& unit : memory_) std::fill(std::begin(unit.bytes), std::end(unit.bytes), 0xff);
  }

  template <typename F>
  void Phase(const F& f) const {
    if (backwards) {
      for (int t = kThreads - 1; t >= 0; --t) f(t);
    } else {
      for (int t = 0; t < kThreads; ++t) f(t);
    }
  }
  template <typename F>
  void Apart(const F& f) const {
    Phase(f);
  }

  template <typename T>
  T* shared() const {
    return reinterpret_cast<T*>(memory_.data());
  }

  template <int kTeam, typename T, typename Join>
  void Combine(PerThread<T>* values, const Join& join) const {
    static_assert(kTeam == kWarp || kTeam == kThreads);
    for (int apart = kWarp / 2; apart > 0; apart /= 2) {
      const PerThread<T> before = *values;
      for (int t = 0; t < kThreads; ++t) (*values)[t] = join(before[t], before[t ^ apart]);
    }
    if (kTeam != kThreads) return;
    T value = (*values)[0];
    for (int t = kWarp; t < kThreads; t += kWarp) value = join(value, (*values)[t]);
    for (int t = 0; t < kThreads; ++t) (*values)[t] = value;
  }

  void Match(const PerThread<uint32_t>& keys, PerThread<uint32_t>* lanes) const {
    for (int t = 0; t < kThreads; ++t) {
      uint32_t same = 0;
      for (int lane = 0; lane < kWarp; ++lane) {
        if (keys[t / kWarp * kWarp + lane] == keys[t]) same |= uint32_t{1} << lane;
      }
      (*lanes)[t] = same;
    }
  }

 private:
  struct alignas(16) Unit {
    unsigned char bytes[16];
  };
  mutable std::vector<Unit> memory_;
};

inline int BitCount(uint32_t bits) { return __builtin_popcount(bits); }
inline void AtomicAdd(uint32_t* sum, uint32_t value) { *sum += value; }
inline bool AtomicClaim(int32_t* value, int32_t wanted) {
  int32_t none = 0;
  return __atomic_compare_exchange_n(value, &none, wanted, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED);
}

template <typename Kernel>
Status LaunchBlocks(const Queue&, int64_t items, size_t shared_bytes, const Kernel& kernel) {
  if (items > 0) ++launches;
  for (int64_t item = 0; item < items; ++item) kernel(Block(shared_bytes), item);
  return Status();
}

#endif

// Elements that a thread has in flight at once, so that memory is kept busy.
constexpr int kInFlight = 4;
constexpr int64_t kTile = int64_t{kThreads} * kInFlight;

COX_BOTH int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <typename T, typename F>
struct FillTile {
  T* out;
  int64_t n;
  F f;

  COX_DEVICE void operator()(const Block& block, int64_t tile) const {
    block.Apart([&](int t) {
      const int64_t first = tile * kTile + t;
      if (first + (kInFlight - 1) * kThreads < n) {
        // All are read before one is written: the compiler cannot know that `out` is no input.
        T values[kInFlight];
        COX_UNROLL
        for (int k = 0; k < kInFlight; ++k) values[k] = f(first + k * kThreads);
        COX_UNROLL
        for (int k = 0; k < kInFlight; ++k) out[first + k * kThreads] = values[k];
      } else {
        for (int64_t i = first; i < n; i += kThreads) out[i] = f(i);
      }
    });
  }
};

// out[i] = f(i) for all i < n. `out` may be memory that f(i) reads at i only.
template <typename T, typename F>
Status FillElements(const Queue& queue, T* out, int64_t n, const F& f) {
  return LaunchBlocks(queue, CeilDiv(n, kTile), 0, FillTile<T, F>{out, n, f});
}

template <typename F>
struct ElementTile {
  int64_t n;
  F f;

  COX_DEVICE void operator()(const Block& block, int64_t tile) const {
    block.Apart([&](int t) {
      const int64_t i = tile * kThreads + t;
      if (i < n) f(i);
    });
  }
};

// Calls f(i) for all i < n.
template <typename F>
Status ForElements(const Queue& queue, int64_t n, const F& f) {
  return LaunchBlocks(queue, CeilDiv(n, kThreads), 0, ElementTile<F>{n, f});
}

}  // namespace coxswain::cuda
