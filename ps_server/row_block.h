// The memory of the rows that an update changes, and of the other values that are kept for them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "coxswain/tensor.h"
#include "runtime/base/multiversion.h"

namespace coxswain::ps {

constexpr int kMaxOptimizerSlots = 2;

// The rows of one part: row r begins at data + r * stride bytes.
struct PartPlace {
  char* data = nullptr;
  size_t stride = 0;

  char* Row(int64_t row) const { return data + static_cast<size_t>(row) * stride; }
};

// How weights that are computed in f32 are rounded to bf16. Stochastic rounding goes up or down
// with probabilities that preserve the mean, so that steps below half a unit in the last place add
// up instead of being lost. The random bits are a function of (seed, key of the row, element,
// number of the update) alone, so a replay or another split into shards gives the same bits.
struct Bf16Rounding {
  bool stochastic = false;
  uint64_t seed = 0;
  // The key of local row r, which identifies it in the whole variable, is first + r * step, or, if
  // `keys` is set, the i64 there.
  PartPlace keys{};
  int64_t first = 0;
  int64_t step = 1;
};

struct RowBlock {
  // Part 0 holds the weights, part 1 + i slot i: `width` elements per row, or one for a slot with
  // one value per row. Parts do not overlap.
  std::array<PartPlace, 1 + kMaxOptimizerSlots> parts{};
  int64_t width = 0;
  DType weights = DType::kInvalid;  // the dtype of T, or bf16 where T is float; slots have T
  // Tables: an i64 per row that is set to `number`. Null: not recorded.
  PartPlace touched{};
  int64_t number = 0;  // of the update
  // Rows that an update after this one has touched before are counted.
  int64_t since = std::numeric_limits<int64_t>::max();
  // Hash tables: an i32 per row, 0 for a free place.
  PartPlace counts{};
  Bf16Rounding rounding{};
};

// Marks a row as touched by update `number`. `touched`: its i64. Returns whether an update after
// `since` and before this one had touched it.
COX_ALWAYS_INLINE bool TouchRow(char* touched, int64_t number, int64_t since) {
  int64_t last;
  std::memcpy(&last, touched, sizeof(last));
  std::memcpy(touched, &number, sizeof(number));
  return (last > since) & (last < number);
}

// A gradient of one row.
template <typename T>
struct RowGradient {
  int64_t row = 0;
  const T* values = nullptr;
};

}  // namespace coxswain::ps
