#include "coordinator/model/sampling.h"

#include "coxswain/tensor.h"
#include "runtime/graph/builder.h"

namespace coxswain::model {

Output SampleByCount(FunctionBuilder& f, const std::vector<int64_t>& counts, int64_t n,
                     double distortion, uint64_t seed, Output* expected) {
  std::vector<float> unigrams;
  unigrams.reserve(counts.size());
  for (const int64_t count : counts) unigrams.push_back(static_cast<float>(count));
  const std::vector<Output> drawn = f.graph().OpN("FixedUnigramSampler", {},
                                                  {{"unigrams", Tensor::FromVector(unigrams)},
                                                   {"num_sampled", n},
                                                   {"distortion", distortion},
                                                   {"seed", static_cast<int64_t>(seed)}},
                                                  2);
  *expected = drawn[1];
  return drawn[0];
}

}  // namespace coxswain::model
