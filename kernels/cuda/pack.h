// As many numbers as a thread reads or writes at once: 16 bytes.
#pragma once

#include "kernels/cuda/launch.h"

namespace coxswain::cuda {

template <typename T, int kNumbers = 16 / static_cast<int>(sizeof(T))>
struct alignas(kNumbers * sizeof(T)) Pack {
  static constexpr int kSize = kNumbers;
  T of[kSize];
};

// As many bytes of anything.
struct alignas(16) Piece {
  uint64_t low, high;
};

// Whether rows of `width` numbers from `memory` on are whole packs at addresses that suit them.
template <typename T>
bool SuitsPacks(const T* memory, int64_t width) {
  return width % Pack<T>::kSize == 0 && reinterpret_cast<uintptr_t>(memory) % sizeof(Pack<T>) == 0;
}

}  // namespace coxswain::cuda
