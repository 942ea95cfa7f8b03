// Names that are drawn for a step, or taken for an evaluation, instead of looking at all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "coxswain/function_builder.h"

namespace coxswain::model {

// `n` ids drawn in proportion to counts^distortion, i64 [n]; `expected` gets how often each is
// drawn in the mean, f32 [n]. A retried step draws the same.
Output SampleByCount(FunctionBuilder& f, const std::vector<int64_t>& counts, int64_t n,
                     double distortion, uint64_t seed, Output* expected);

// The same for an evaluation, whose result is to depend on the examples and the model alone and not
// on the batches they are in: always the same `n` ids, evenly spread over the distribution (the
// names in the order of their ids).
Output SpreadByCount(FunctionBuilder& f, const std::vector<int64_t>& counts, int64_t n,
                     double distortion, Output* expected);

}  // namespace coxswain::model
