// Skip-gram models of words (Mikolov et al. 2013): a table of the words' vectors, "word", and one
// of their vectors as what stands beside others, "word_output". For data sets of the format "text".
#pragma once

#include <cstdint>
#include <vector>

#include "coxswain/function_builder.h"
#include "coordinator/job/job_spec.h"

namespace coxswain {

struct SkipGramTables {
  EmbeddingTable input, output;
};

struct SkipGramLoss {
  Output sum;    // over the batch's pairs: what is minimized
  Output mean;   // over the batch's pairs, 0 when it has none: what is reported
  Output pairs;  // how many they are, f32
};

// With v the vector of a pair's centre, u the output vector of its context, and N words n drawn for
// the step by count^distortion, shared by all pairs:
//   negative_sampling  -log s(u v) - negatives_per_pair / N sum_n log s(-u_n v)     s: the sigmoid
//   sampled_softmax    -log(e^(u v) / (e^(u v) + sum_n e^(u_n v) / (N p(n))))
// Negatives are products of matrices over the distinct centres, not over the pairs.
SkipGramLoss BuildSkipGram(FunctionBuilder& f, const SkipGramTables& tables, const LossSpec& loss,
                           const std::vector<int64_t>& counts, uint64_t seed);

// `n` ids drawn in proportion to counts^distortion, i64 [n]; `expected` gets how often each is
// drawn in the mean, f32 [n]. A retried step draws the same.
Output SampleByCount(FunctionBuilder& f, const std::vector<int64_t>& counts, int64_t n,
                     double distortion, uint64_t seed, Output* expected);

}  // namespace coxswain
