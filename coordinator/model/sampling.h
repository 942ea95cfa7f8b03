// Names that are drawn for a step, instead of looking at all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "coxswain/function_builder.h"

namespace coxswain::model {

// `n` ids drawn in proportion to counts^distortion, i64 [n]; `expected` gets how often each is
// drawn in the mean, f32 [n]. A retried step draws the same.
Output SampleByCount(FunctionBuilder& f, const std::vector<int64_t>& counts, int64_t n,
                     double distortion, uint64_t seed, Output* expected);

}  // namespace coxswain::model
