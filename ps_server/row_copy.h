// Copies of scattered rows.
#pragma once

#include <cstddef>
#include <cstdint>

namespace coxswain {

// to[i] = row ids[i] of `base`: `bytes` bytes from base + ids[i] * stride. The ids were checked.
void GatherRows(const char* base, size_t stride, size_t bytes, const int64_t* ids, int64_t n,
                char* to);

// Row ids[i] of `base` = from[i].
void ScatterRows(char* base, size_t stride, size_t bytes, const int64_t* ids, int64_t n,
                 const char* from);

// The i64 in row ids[i] of `base` = value.
void SetAt(char* base, size_t stride, const int64_t* ids, int64_t n, int64_t value);

// Whether every id is in [0, rows).
bool AllInRange(const int64_t* ids, int64_t n, int64_t rows);

}  // namespace coxswain
