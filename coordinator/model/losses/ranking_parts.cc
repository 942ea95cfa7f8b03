#include "coordinator/model/losses/ranking_parts.h"

#include "coordinator/job/job_sections.h"

namespace coxswain::model {

void CheckDistortion(const job::JobReader& reader, const job::SamplingSpec& options) {
  if (options.distribution == job::Distribution::kUniform &&
      reader.file.Sub("loss").Given("distortion")) {
    reader.Error("loss.distortion", "only with distribution: popularity");
  }
}

Output BiasedOthers(FunctionBuilder& f, const job::Ranking& ranking) {
  return ranking.biases.valid() ? f.Add(ranking.others, ranking.biases) : ranking.others;
}

Output WithoutKnown(FunctionBuilder& f, Output scores, const job::Ranking& ranking) {
  if (!ranking.known.valid()) return scores;
  constexpr float kFar = 1e30f;  // e^-kFar is 0, and so is its gradient
  return f.Sub(scores, f.Mul(ranking.known, f.Scalar(kFar)));
}

Output Unknown(FunctionBuilder& f, const job::Ranking& ranking) {
  const Output own = f.Reshape(ranking.own_ids, {-1, 1});
  const Output other = f.Cast(f.Op("NotEqual", {own, ranking.other_ids}), DType::kF32);
  if (!ranking.known.valid()) return other;
  return f.Mul(other, f.Sub(f.Scalar(1), ranking.known));
}

}  // namespace coxswain::model
