// Copies between blocks of rows: what concatenating, splitting and slicing are made of.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/dispatch.h"
#include "runtime/env/compute_pool.h"

namespace coxswain::kernels {

// Copies `count` pieces of `bytes` bytes; piece i lies at i * stride (in bytes) of each side. The
// two do not overlap. In parallel when it is large.
inline void CopyPieces(const void* from, int64_t from_stride, void* to, int64_t to_stride,
                       int64_t count, int64_t bytes, env::ComputePool* pool) {
  if (count == 0 || bytes == 0) return;
  if (bytes == from_stride && bytes == to_stride) {  // one piece
    bytes *= count;
    count = 1;
  }
  constexpr int64_t kBytesGrain = kElementGrain * 4;
  const auto* source = static_cast<const char*>(from);
  auto* target = static_cast<char*>(to);
  pool->ParallelFor(count, kBytesGrain / bytes + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(target + i * to_stride, source + i * from_stride, static_cast<size_t>(bytes));
    }
  });
}

}  // namespace coxswain::kernels
