#include "ps_server/row_copy.h"

#include <algorithm>
#include <cstring>

#include "ps_server/bf16.h"
#include "runtime/base/multiversion.h"

namespace coxswain::ps {
namespace {

constexpr int64_t kAhead = 12;         // rows whose memory is asked for in advance
constexpr size_t kMaxPrefetch = 1024;  // bytes of a row; the hardware follows long rows by itself

COX_ALWAYS_INLINE void GatherLoop(const char* __restrict base, size_t stride, size_t bytes,
                                  const int64_t* ids, int64_t n, char* __restrict to) {
  const size_t span = std::min(bytes, kMaxPrefetch);
  for (int64_t i = 0; i < n; ++i) {
    if (i + kAhead < n) {
      const char* next = base + static_cast<size_t>(ids[i + kAhead]) * stride;
      for (size_t b = 0; b < span; b += 64) __builtin_prefetch(next + b, 0, 3);
    }
    std::memcpy(to + static_cast<size_t>(i) * bytes, base + static_cast<size_t>(ids[i]) * stride,
                bytes);
  }
}

// Usual row sizes as constants: their copies become a few vector moves instead of a call.
COX_MULTIVERSION void GatherClones(const char* base, size_t stride, size_t bytes,
                                   const int64_t* ids, int64_t n, char* to) {
  switch (bytes) {
    case 32:
      return GatherLoop(base, stride, 32, ids, n, to);
    case 64:
      return GatherLoop(base, stride, 64, ids, n, to);
    case 128:
      return GatherLoop(base, stride, 128, ids, n, to);
    case 256:
      return GatherLoop(base, stride, 256, ids, n, to);
    default:
      return GatherLoop(base, stride, bytes, ids, n, to);
  }
}

COX_ALWAYS_INLINE void GatherWideLoop(const char* base, size_t stride, int64_t width,
                                      const int64_t* ids, int64_t n, float* __restrict to) {
  const size_t span = std::min(static_cast<size_t>(width) * sizeof(BFloat16), kMaxPrefetch);
  for (int64_t i = 0; i < n; ++i, to += width) {
    if (ids != nullptr && i + kAhead < n) {
      const char* next = base + static_cast<size_t>(ids[i + kAhead]) * stride;
      for (size_t b = 0; b < span; b += 64) __builtin_prefetch(next + b, 0, 3);
    }
    const int64_t row = ids == nullptr ? i : ids[i];
    const auto* from = reinterpret_cast<const uint16_t*>(base + static_cast<size_t>(row) * stride);
    int64_t e = 0;
    for (; e + kBf16Block <= width; e += kBf16Block) WidenBlock<kBf16Block>(from + e, to + e);
    if (e + 8 <= width) {
      WidenBlock<8>(from + e, to + e);
      e += 8;
    }
    for (; e < width; ++e) to[e] = WidenBf16({from[e]});
  }
}

COX_MULTIVERSION void GatherWideClones(const char* base, size_t stride, int64_t width,
                                       const int64_t* ids, int64_t n, float* to) {
  switch (width) {
    case 8:
      return GatherWideLoop(base, stride, 8, ids, n, to);
    case 16:
      return GatherWideLoop(base, stride, 16, ids, n, to);
    case 32:
      return GatherWideLoop(base, stride, 32, ids, n, to);
    case 64:
      return GatherWideLoop(base, stride, 64, ids, n, to);
    default:
      return GatherWideLoop(base, stride, width, ids, n, to);
  }
}

}  // namespace

void GatherBf16Rows(const char* base, size_t stride, int64_t width, const int64_t* ids, int64_t n,
                    float* to) {
  GatherWideClones(base, stride, width, ids, n, to);
}

void WriteBf16Rows(char* base, size_t stride, int64_t width, int64_t n, const float* from) {
  for (int64_t r = 0; r < n; ++r, base += stride, from += width) {
    BFloat16* row = reinterpret_cast<BFloat16*>(base);
    for (int64_t e = 0; e < width; ++e) row[e] = NearestBf16(from[e]);
  }
}

void GatherRows(const char* base, size_t stride, size_t bytes, const int64_t* ids, int64_t n,
                char* to) {
  GatherClones(base, stride, bytes, ids, n, to);
}

void ScatterRows(char* base, size_t stride, size_t bytes, const int64_t* ids, int64_t n,
                 const char* from) {
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(base + static_cast<size_t>(ids[i]) * stride, from + static_cast<size_t>(i) * bytes,
                bytes);
  }
}

void SetAt(char* base, size_t stride, const int64_t* ids, int64_t n, int64_t value) {
  for (int64_t i = 0; i < n; ++i) {
    if (i + kAhead < n) {
      __builtin_prefetch(base + static_cast<size_t>(ids[i + kAhead]) * stride, 1, 3);
    }
    std::memcpy(base + static_cast<size_t>(ids[i]) * stride, &value, sizeof(value));
  }
}

bool AllInRange(const int64_t* ids, int64_t n, int64_t rows) {
  uint64_t bad = 0;
  for (int64_t i = 0; i < n; ++i) {
    // The sign bit of either is set when the id is negative or not below `rows`.
    const uint64_t id = static_cast<uint64_t>(ids[i]);
    bad |= id | (static_cast<uint64_t>(rows) - 1 - id);
  }
  return (bad >> 63) == 0;
}

}  // namespace coxswain::ps
