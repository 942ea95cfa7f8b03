// Skip-gram models of words (Mikolov et al., 2013): a table of the words' vectors, "word", and one
// of their vectors as what stands beside others, "word_output". For data sets of the format "text".
//
// With v the vector of a pair's centre, u the output vector of its context, and N words n drawn for
// the step by count^distortion, shared by all pairs:
//   negative_sampling  -log s(u v) - negatives_per_pair / N sum_n log s(-u_n v)     s: the sigmoid
//   sampled_softmax    -log(e^(u v) / (e^(u v) + sum_n e^(u_n v) / (N p(n))))
// Negatives are products of matrices over the distinct centres, not over the pairs. An evaluation
// has the same words in their place in each batch, so that its loss is a function of the pairs.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "coordinator/job/job_format.h"
#include "coordinator/job/job_sections.h"
#include "coordinator/job/loss_kind.h"
#include "coordinator/job/size_limits.h"
#include "coordinator/model/kinds/kind_list.h"
#include "coordinator/model/model_parts.h"
#include "coordinator/model/sampling.h"
#include "runtime/data/skip_gram.h"

namespace coxswain::model {
namespace {

// All pairs of an evaluation share them, and not those of one batch.
constexpr int64_t kEvaluatedWords = 1024;

struct Word2VecOptions {
  int64_t dim = 0;
};

constexpr job::SchemaKey kKeys[] = {
    job::Key<&Word2VecOptions::dim>("dim", "100", "dimension of the word vectors")
        .Min(1)
        .Max(job::kMostWidth),
};

struct SkipGramLoss {
  Output sum;    // over the batch's pairs: what is minimized
  Output mean;   // over the batch's pairs, 0 when it has none: what is reported
  Output pairs;  // how many they are, f32
};

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

class Word2Vec : public job::ModelSpec {
 public:
  Word2VecOptions options;

  std::string Options() const override { return job::ShowKeys(kKeys, options); }
  std::string item() const override { return data::kWordFeature; }

  void Complete(const job::JobReader& reader) override {
    if (job::FormatOf(*reader.job).has_rows) {
      reader.Error("model.kind", "word2vec needs a text (dataset.format: text)");
      return;
    }
    reader.job->dataset.mutable_features(0)->set_dim(options.dim);
  }

  std::vector<job::TableUse> Tables() const override {
    const double stddev = 0.5 / static_cast<double>(options.dim);
    return {{data::kWordFeature, job::TableSpec::Role::kEmbedding, stddev},
            {data::kWordFeature, job::TableSpec::Role::kOutput}};
  }

  Output Train(FunctionBuilder& f, const ModelParts& parts) const override {
    const SkipGramLoss loss = Loss(f, parts, /*evaluates=*/false);
    parts.Minimize(f, loss.sum);
    return loss.mean;
  }

  void Evaluate(FunctionBuilder& f, const ModelParts& parts) const override {
    const SkipGramLoss loss = Loss(f, parts, /*evaluates=*/true);
    f.Result("loss", loss.sum);
    f.Result("pairs", loss.pairs);
  }

 private:
  SkipGramLoss Loss(FunctionBuilder& f, const ModelParts& parts, bool evaluates) const;
};

SkipGramLoss Word2Vec::Loss(FunctionBuilder& f, const ModelParts& parts, bool evaluates) const {
  const job::SamplingSpec& sampling = *parts.job().loss->sampling();
  // The others count as much as all words would; else as a number of them for each pair.
  const bool softmax = sampling.negatives_per_pair == 0;
  const bool uniform = sampling.distribution == job::Distribution::kUniform;
  const Output pairs = f.Column("center.pairs"), center_of = f.Column("context.center");
  const double distortion = uniform ? 0 : sampling.distortion;
  const std::vector<int64_t> counts = parts.data().training_counts(data::kWordFeature);
  int64_t drawn = sampling.negatives;
  // A softmax is estimated by as many as in training, of which its mean depends.
  if (evaluates && !softmax) drawn = std::max(drawn, kEvaluatedWords);
  Output expected;
  const Output negatives =
      evaluates ? SpreadByCount(f, counts, drawn, distortion, &expected)
                : SampleByCount(f, counts, drawn, distortion, parts.job().train.seed, &expected);
  const Output v = f.Lookup(parts.table(data::kWordFeature), f.Column("center"));
  std::vector<Output> places;
  const Output u = f.LookupUnique(parts.table(absl::StrCat(data::kWordFeature, "_output")),
                                  {f.Column("context"), negatives}, &places);
  Output logits = f.Op("PairDot", {v, u, center_of, places[0]});
  Output negative_logits = f.MatMul(v, f.Gather(u, places[1]), false, true);
  SkipGramLoss result;
  if (softmax) {
    if (sampling.temperature != 1) {
      const Output scale = f.Scalar(static_cast<float>(1 / sampling.temperature));
      logits = f.Mul(logits, scale);
      negative_logits = f.Mul(negative_logits, scale);
    }
    const Output others = LogSumExp(f, f.Sub(negative_logits, f.Log(expected)));
    result.sum = f.Sum(Softplus(f, f.Sub(f.Gather(others, center_of), logits)));
  } else {
    // Each centre's negatives count for all of its pairs.
    const Output rows = f.Mul(f.Op("NegativeSamplingLoss", {negative_logits}), pairs);
    const double weight = sampling.negatives_per_pair / static_cast<double>(drawn);
    result.sum = f.Add(f.Sum(Softplus(f, f.Neg(logits))),
                       f.Mul(f.Sum(rows), f.Scalar(static_cast<float>(weight))));
  }
  result.pairs = f.Sum(pairs);
  result.mean = f.Div(result.sum, f.Op("Maximum", {result.pairs, f.Scalar(1)}));
  return result;
}

}  // namespace

const job::ModelKind& Word2VecKind() {
  static constexpr job::PredictionKind kSays[] = {job::PredictionKind::kPairs,
                                                  job::PredictionKind::kRank};
  static constexpr job::ModelKind kKind = {
      .name = "word2vec",
      .score =
          "dot product of the vectors of two words near each other, one as the centre and one as "
          "context (skip-gram: Mikolov et al., 2013)",
      .says = kSays,
      .predicts = job::Predicts::kNeighbours,
      .keys = kKeys,
      .read = job::ReadModelKeys<Word2Vec, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
