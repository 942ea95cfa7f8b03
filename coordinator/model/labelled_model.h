// Models that learn the examples' label: they compute a score, or one for each class, and the job's
// loss does the rest.
#pragma once

#include "coordinator/job/model_kind.h"

namespace coxswain::model {

// The job's loss says the probability that the label is 1, and an evaluation step returns the
// logits of its examples, f32 [B], behind labels and ranks: Measured::score.
bool SaysProbabilities(const job::JobSpec& job);

class LabelledModel : public job::ModelSpec {
 public:
  // The scores before the loss's link function: f32 [B] or [B, classes].
  virtual Output Logits(FunctionBuilder& f, const ModelParts& parts) const = 0;

  Output Train(FunctionBuilder& f, const ModelParts& parts) const override;
  void Evaluate(FunctionBuilder& f, const ModelParts& parts) const override;
  // Of models that rank: how many items score higher than each example's own, i64 [B], without
  // those that are known for it (ModelParts::FactorizedRank, or Rank).
  virtual Output ItemRanks(FunctionBuilder& f, const ModelParts& parts) const;
  void Predict(FunctionBuilder& f, const ModelParts& parts) const override;
};

}  // namespace coxswain::model
