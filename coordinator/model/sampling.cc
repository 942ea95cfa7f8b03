#include "coordinator/model/sampling.h"

#include <algorithm>
#include <cmath>

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

Output SpreadByCount(FunctionBuilder& f, const std::vector<int64_t>& counts, int64_t n,
                     double distortion, Output* expected) {
  const auto most = std::max_element(counts.begin(), counts.end());
  // Its error says what is wrong.
  if (most == counts.end() || *most <= 0)
    return SampleByCount(f, counts, n, distortion, 0, expected);
  std::vector<double> below = {0};  // the weights of all ids before each, and of all
  for (const int64_t count : counts) {
    const double share = static_cast<double>(count) / static_cast<double>(*most);
    const double weight = count > 0 ? std::pow(share, distortion) : 0;
    below.push_back(below.back() + weight);
  }
  const double all = below.back(), each = all / static_cast<double>(n);
  std::vector<int64_t> ids;
  std::vector<float> times;
  size_t id = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double place = (static_cast<double>(i) + 0.5) * each;
    while (id + 2 < below.size() && below[id + 1] <= place) ++id;
    ids.push_back(static_cast<int64_t>(id));
    times.push_back(static_cast<float>((below[id + 1] - below[id]) / each));
  }
  *expected = f.Constant(Tensor::FromVector(times));
  return f.Constant(Tensor::FromVector(ids));
}

}  // namespace coxswain::model
