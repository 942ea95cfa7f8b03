// Products of all pairs among F vectors of an example, and their gradient: the f32 loops of
// PairwiseDots, for the body of a RunSimd loop (see simd.h).
//
// A matrix library wants the vectors side by side and multiplies all with all. Here they are read
// where they are, and of the products only the tiles that hold some of the lower triangle are made:
// kRows x kVectors registers of kLanes numbers each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/cpu/simd.h"

namespace coxswain::kernels {

// The registers of a level: lanes of one, and the tiles that fill them without spilling.
template <SimdLevel kLevel>
struct PairTiles {
  static constexpr int kLanes = 4, kDotRows = 4, kDotVectors = 2, kGradRows = 4, kGradVectors = 2;
};
template <>
struct PairTiles<SimdLevel::kAvx2> {
  static constexpr int kLanes = 8, kDotRows = 6, kDotVectors = 2, kGradRows = 6, kGradVectors = 2;
};
template <>
struct PairTiles<SimdLevel::kAvx512> {
  static constexpr int kLanes = 16, kDotRows = 8, kDotVectors = 2, kGradRows = 6, kGradVectors = 4;
};

// Calls body(std::integral_constant<SimdLevel, level>) compiled for `level`, which the machine must
// have.
template <typename Body>
void RunSimdByLevel(SimdLevel level, const Body& body) {
#if defined(__x86_64__)
  if (level == SimdLevel::kAvx512) {
    return RunAvx512(
        [&]() COX_SIMD_BODY { body(std::integral_constant<SimdLevel, SimdLevel::kAvx512>()); });
  }
  if (level == SimdLevel::kAvx2) {
    return RunAvx2(
        [&]() COX_SIMD_BODY { body(std::integral_constant<SimdLevel, SimdLevel::kAvx2>()); });
  }
#endif
  body(std::integral_constant<SimdLevel, SimdLevel::kBaseline>());
}

template <int kLanes>
struct FloatLanes {
  typedef float Type __attribute__((vector_size(4 * kLanes)));
};

// Columns of the scratch matrices: at least F, so that the last tile has room, too.
inline int64_t PaddedPairs(int64_t vectors) { return (vectors + 47) / 48 * 48; }

// The scratch memory of one thread.
struct PairScratch {
  PairScratch(int64_t vectors, int64_t width)
      : padded(PaddedPairs(vectors)),
        square(static_cast<size_t>(std::max(width, vectors) * padded), 0.0f),
        tile(static_cast<size_t>(8 * padded), 0.0f),
        zeros(static_cast<size_t>(width), 0.0f),
        rows(static_cast<size_t>(vectors)) {}

  const int64_t padded;
  std::vector<float> square;  // the vectors, transposed; or the symmetric gradient
  std::vector<float> tile;
  std::vector<float> zeros;
  std::vector<const float*> rows;
};

// out[d * stride + i] = rows[i][d] for four rows i.
COX_SIMD_INLINE void TransposeFour(const float* a, const float* b, const float* c, const float* d,
                                   int64_t width, int64_t stride, float* out) {
  using V = FloatLanes<4>::Type;
  int64_t at = 0;
  for (; at + 4 <= width; at += 4, out += 4 * stride) {
    V x, y, z, w;
    std::memcpy(&x, a + at, sizeof(V));
    std::memcpy(&y, b + at, sizeof(V));
    std::memcpy(&z, c + at, sizeof(V));
    std::memcpy(&w, d + at, sizeof(V));
    const V xy_low = __builtin_shufflevector(x, y, 0, 4, 1, 5);
    const V xy_high = __builtin_shufflevector(x, y, 2, 6, 3, 7);
    const V zw_low = __builtin_shufflevector(z, w, 0, 4, 1, 5);
    const V zw_high = __builtin_shufflevector(z, w, 2, 6, 3, 7);
    const V columns[4] = {__builtin_shufflevector(xy_low, zw_low, 0, 1, 4, 5),
                          __builtin_shufflevector(xy_low, zw_low, 2, 3, 6, 7),
                          __builtin_shufflevector(xy_high, zw_high, 0, 1, 4, 5),
                          __builtin_shufflevector(xy_high, zw_high, 2, 3, 6, 7)};
    for (int i = 0; i < 4; ++i) std::memcpy(out + i * stride, &columns[i], sizeof(V));
  }
  for (; at < width; ++at, out += stride) {
    out[0] = a[at];
    out[1] = b[at];
    out[2] = c[at];
    out[3] = d[at];
  }
}

// out[r * stride + j] = sum_d t[d, i0 + r] t[d, j0 + j] for a tile of rows and columns.
template <int kLanes, int kRows, int kVectors>
COX_SIMD_INLINE void DotTile(const float* t, int64_t stride, int64_t depth, int64_t i0, int64_t j0,
                             float* out) {
  using V = typename FloatLanes<kLanes>::Type;
  V sums[kRows][kVectors] = {};
  const float *a = t + i0, *b = t + j0;
  for (int64_t d = 0; d < depth; ++d, a += stride, b += stride) {
    V x[kVectors];
    for (int v = 0; v < kVectors; ++v) std::memcpy(&x[v], b + v * kLanes, sizeof(V));
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) sums[r][v] += a[r] * x[v];
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      std::memcpy(out + r * stride + j0 + v * kLanes, &sums[r][v], sizeof(V));
    }
  }
}

// The tiles of the rows from i0 on that hold columns of [0, last).
template <int kLanes, int kRows, int kVectors>
COX_SIMD_INLINE void DotTiles(const float* t, int64_t stride, int64_t depth, int64_t i0,
                              int64_t last, float* out) {
  int64_t j0 = 0;
  for (; j0 + kLanes < last; j0 += kVectors * kLanes) {
    DotTile<kLanes, kRows, kVectors>(t, stride, depth, i0, j0, out);
  }
  if (j0 < last) DotTile<kLanes, kRows, 1>(t, stride, depth, i0, j0, out);
}

// Copies `count` numbers in whole registers. Behind them it may leave garbage, never beyond `end`,
// which the next row overwrites.
template <int kLanes>
COX_SIMD_INLINE void CopyRow(const float* from, int64_t count, float* to, const float* end) {
  for (int64_t at = 0; at < count; at += kLanes) {
    if (to + at + kLanes <= end) {
      std::memcpy(to + at, from + at, sizeof(float) * kLanes);
    } else {
      for (int64_t rest = at; rest < count; ++rest) to[rest] = from[rest];
      return;
    }
  }
}

// y = the strict lower triangle, by rows, of the products of scratch->rows with each other.
template <SimdLevel kLevel>
COX_SIMD_INLINE void PairDots(int64_t vectors, int64_t width, PairScratch* scratch, float* y) {
  using Tiles = PairTiles<kLevel>;
  constexpr int kLanes = Tiles::kLanes, kRows = Tiles::kDotRows, kVectors = Tiles::kDotVectors;
  const int64_t stride = scratch->padded;
  float* t = scratch->square.data();
  const float* const* rows = scratch->rows.data();
  const float* zeros = scratch->zeros.data();
  for (int64_t i = 0; i < vectors; i += 4) {
    TransposeFour(rows[i], i + 1 < vectors ? rows[i + 1] : zeros,
                  i + 2 < vectors ? rows[i + 2] : zeros, i + 3 < vectors ? rows[i + 3] : zeros,
                  width, stride, t + i);
  }
  const float* end = y + vectors * (vectors - 1) / 2;
  for (int64_t i0 = 0; i0 < vectors; i0 += kRows) {
    const int64_t last = std::min(i0 + kRows, vectors) - 1;  // columns [0, last) are wanted
    float* tile = scratch->tile.data();
    if (vectors - i0 > kRows / 2) {
      DotTiles<kLanes, kRows, kVectors>(t, stride, width, i0, last, tile);
    } else {
      DotTiles<kLanes, kRows / 2, kVectors>(t, stride, width, i0, last, tile);
    }
    for (int64_t i = i0; i <= last; ++i) {
      CopyRow<kLanes>(tile + (i - i0) * stride, i, y + i * (i - 1) / 2, end);
    }
  }
}

// out[r][j] = sum_k s[k, i0 + r] rows[k][d0 + j] for all rows i0 + r < vectors.
template <int kLanes, int kRows, int kVectors>
COX_SIMD_INLINE void GradTile(const float* s, int64_t stride, const float* const* rows,
                              int64_t vectors, int64_t i0, int64_t d0, int64_t base,
                              float* const* out) {
  using V = typename FloatLanes<kLanes>::Type;
  V sums[kRows][kVectors] = {};
  for (int64_t k = 0; k < vectors; ++k) {
    V x[kVectors];
    for (int v = 0; v < kVectors; ++v) std::memcpy(&x[v], rows[k] + d0 + v * kLanes, sizeof(V));
    const float* factors = s + k * stride + i0;
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) sums[r][v] += factors[r] * x[v];
    }
  }
  for (int r = 0; r < kRows; ++r) {
    if (i0 + r >= vectors) break;
    for (int v = 0; v < kVectors; ++v) {
      std::memcpy(out[i0 + r] + base + d0 + v * kLanes, &sums[r][v], sizeof(V));
    }
  }
}

// out[i][base ..] = sum_{j != i} g_ij rows[j], g given as its strict lower triangle by rows.
template <SimdLevel kLevel>
COX_SIMD_INLINE void PairDotsGrad(const float* g, int64_t vectors, int64_t width, int64_t base,
                                  PairScratch* scratch, float* const* out) {
  using Tiles = PairTiles<kLevel>;
  constexpr int kLanes = Tiles::kLanes, kRows = Tiles::kGradRows, kVectors = Tiles::kGradVectors;
  const int64_t stride = scratch->padded;
  float* s = scratch->square.data();  // its diagonal and its padding stay zero
  for (int64_t i = 1; i < vectors; ++i) {
    const float* row = g + i * (i - 1) / 2;
    for (int64_t j = 0; j < i; ++j) {
      s[i * stride + j] = row[j];
      s[j * stride + i] = row[j];
    }
  }
  const float* const* rows = scratch->rows.data();
  for (int64_t i0 = 0; i0 < vectors; i0 += kRows) {
    int64_t d0 = 0;
    for (; d0 + kVectors * kLanes <= width; d0 += kVectors * kLanes) {
      GradTile<kLanes, kRows, kVectors>(s, stride, rows, vectors, i0, d0, base, out);
    }
    for (; d0 + kLanes <= width; d0 += kLanes) {
      GradTile<kLanes, kRows, 1>(s, stride, rows, vectors, i0, d0, base, out);
    }
  }
  for (int64_t i = 0; i < vectors; ++i) {
    for (int64_t d = width / kLanes * kLanes; d < width; ++d) {
      float sum = 0;
      for (int64_t k = 0; k < vectors; ++k) sum += s[k * stride + i] * rows[k][d];
      out[i][base + d] = sum;
    }
  }
}

}  // namespace coxswain::kernels
