// Copies of scattered rows.
#pragma once

#include <cstddef>
#include <cstdint>

namespace coxswain::ps {

// to[i] = row ids[i] of `base`: `bytes` bytes from base + ids[i] * stride. The ids must have been
// checked.
void GatherRows(const char* base, size_t stride, size_t bytes, const int64_t* ids, int64_t n,
                char* to);

// The same for rows of `width` bf16, as f32; for rows 0, 1, 2, ... when `ids` is null.
void GatherBf16Rows(const char* base, size_t stride, int64_t width, const int64_t* ids, int64_t n,
                    float* to);

// Rows 0 .. n - 1 of `base`, in bf16, = `from`, rounded to nearest.
void WriteBf16Rows(char* base, size_t stride, int64_t width, int64_t n, const float* from);

// Row ids[i] of `base` = from[i].
void ScatterRows(char* base, size_t stride, size_t bytes, const int64_t* ids, int64_t n,
                 const char* from);

// The i64 in row ids[i] of `base` = value.
void SetAt(char* base, size_t stride, const int64_t* ids, int64_t n, int64_t value);

// Whether every id is in [0, rows).
bool AllInRange(const int64_t* ids, int64_t n, int64_t rows);

}  // namespace coxswain::ps
