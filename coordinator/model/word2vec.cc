#include "coordinator/model/word2vec.h"

#include "coxswain/tensor.h"
#include "runtime/graph/builder.h"

namespace coxswain {
namespace {

// log(1 + e^x), by element.
Output Softplus(FunctionBuilder& f, Output x) {
  return f.SigmoidCrossEntropy(x, f.Op("ZerosLike", {x}));
}

// log sum_j e^x_ij: [C, N] -> [C].
Output LogSumExp(FunctionBuilder& f, Output x) {
  const Attrs over_columns = {{"axes", std::vector<int64_t>{1}}, {"keep_dims", true}};
  const Output max = f.Op("StopGradient", {f.Op("ReduceMax", {x}, over_columns)});
  const Output sum = f.Op("ReduceSum", {f.Exp(f.Sub(x, max))}, over_columns);
  return f.Reshape(f.Add(f.Log(sum), max), {-1});
}

}  // namespace

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

SkipGramLoss BuildSkipGram(FunctionBuilder& f, const SkipGramTables& tables, const LossSpec& loss,
                           const std::vector<int64_t>& counts, uint64_t seed) {
  const Output pairs = f.Column("center.pairs"), center_of = f.Column("context.center");
  const bool softmax = loss.kind == LossKind::kSampledSoftmax;
  const bool uniform = softmax && loss.distribution == Distribution::kUniform;
  Output expected;
  const Output negatives =
      SampleByCount(f, counts, loss.negatives, uniform ? 0 : loss.distortion, seed, &expected);
  const Output v = f.Lookup(tables.input, f.Column("center"));
  std::vector<Output> places;
  const Output u = f.LookupUnique(tables.output, {f.Column("context"), negatives}, &places);
  Output logits = f.Op("PairDot", {v, u, center_of, places[0]});
  Output negative_logits = f.MatMul(v, f.Gather(u, places[1]), false, true);
  SkipGramLoss result;
  if (softmax) {
    if (loss.temperature != 1) {
      const Output scale = f.Scalar(static_cast<float>(1 / loss.temperature));
      logits = f.Mul(logits, scale);
      negative_logits = f.Mul(negative_logits, scale);
    }
    const Output others = LogSumExp(f, f.Sub(negative_logits, f.Log(expected)));
    result.sum = f.Sum(Softplus(f, f.Sub(f.Gather(others, center_of), logits)));
  } else {
    // Each centre's negatives count for all of its pairs.
    const Output rows = f.Mul(f.Op("NegativeSamplingLoss", {negative_logits}), pairs);
    const double weight = loss.negatives_per_pair / static_cast<double>(loss.negatives);
    result.sum = f.Add(f.Sum(Softplus(f, f.Neg(logits))),
                       f.Mul(f.Sum(rows), f.Scalar(static_cast<float>(weight))));
  }
  result.pairs = f.Sum(pairs);
  result.mean = f.Div(result.sum, f.Op("Maximum", {result.pairs, f.Scalar(1)}));
  return result;
}

}  // namespace coxswain
