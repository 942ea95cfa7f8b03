// Rows of a table by id, and those that point in about the same direction as given vectors, found
// where they lie. What functions within Coxswain build of it has no gradient.
//
// Thread model: that of FunctionBuilder.
#pragma once

#include <cstdint>

#include "coxswain/function_builder.h"
#include "coxswain/strategy.h"

namespace coxswain {

// Rows by id, i64 [n] -> f32 [n, dim]: not rounded on the way, whatever the table's wire_dtype is.
// For a table that is no hash table.
Output ExactRows(FunctionBuilder& f, const EmbeddingTable& table, Output ids);

// The k rows of a table for each of x, f32 [n, dim], by x_i . row / |row|, best first, of equal
// ones the lower id first. Rows that have no direction (zeros, or not finite) are no answer, nor
// are those of exclude_values, i64 [m], from place exclude_offsets[i] up to exclude_offsets[i + 1],
// i32 [n + 1]. Where there are fewer: -infinity, and -1 for the id. For a table that is no hash
// table.
FunctionBuilder::TopCandidates NearestByDirection(FunctionBuilder& f, const EmbeddingTable& table,
                                                  Output x, Output exclude_values,
                                                  Output exclude_offsets, int64_t k);

}  // namespace coxswain
