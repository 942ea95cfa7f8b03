// Where the rows lie that an update changes, and what is kept beside their weights and slots.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "coxswain/tensor.h"

namespace coxswain::ps {

constexpr int kMaxOptimizerSlots = 2;

// Rows of one thing: row r lies from data + r * stride on, in bytes.
struct PartPlace {
  char* data = nullptr;
  size_t stride = 0;

  char* Row(int64_t row) const { return data + static_cast<size_t>(row) * stride; }
};

// How weights that are computed in f32 become bf16 again. Stochastically: up or down with the
// probability that keeps the mean, so that steps below half a unit in the last place add up instead
// of being lost. The random bits are a function of (seed, key of the row, element, number of the
// update) alone: a replay gives the same bits, and so does another split into shards.
struct Bf16Rounding {
  bool stochastic = false;
  uint64_t seed = 0;
  // The key of local row r, what it is called in the whole variable, is first + r * step; where
  // `keys` is set, the i64 there.
  PartPlace keys{};
  int64_t first = 0;
  int64_t step = 1;
};

struct RowBlock {
  // Part 0 holds the weights, part 1 + i slot i: `width` elements a row, a slot of one value a row
  // one. Parts do not overlap.
  std::array<PartPlace, 1 + kMaxOptimizerSlots> parts{};
  int64_t width = 0;
  DType weights = DType::kInvalid;  // the dtype of T, or bf16 where T is float; slots have T
  // Tables: an i64 of each row that becomes `number`. Null: nothing is noted.
  PartPlace touched{};
  int64_t number = 0;  // of the update
  // Hash tables: an i32 of each row, 0 where there is none: the place is free.
  PartPlace counts{};
  Bf16Rounding rounding{};
};

// A gradient of one row.
template <typename T>
struct RowGradient {
  int64_t row = 0;
  const T* values = nullptr;
};

}  // namespace coxswain::ps
