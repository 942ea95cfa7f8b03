// mean(-label log p - (1 - label) log(1 - p)), p = 1 / (1 + e^-score)
#include "coordinator/model/losses/log_odds.h"
#include "coordinator/model/losses/loss_list.h"
#include "coxswain/function_builder.h"

namespace coxswain::model {
namespace {

class SigmoidCrossEntropy : public job::LossSpec {
 public:
  Output PerExample(FunctionBuilder& f, Output logits, Output label) const override {
    return f.SigmoidCrossEntropy(logits, label);
  }
  Output Predict(FunctionBuilder& f, Output logits) const override { return f.Sigmoid(logits); }
  double FirstScore(double mean_label) const override { return LogOdds(mean_label); }
};

}  // namespace

const job::LossKind& SigmoidCrossEntropyLoss() {
  static constexpr job::LossKind kKind = {.name = "sigmoid_cross_entropy",
                                          .prediction = job::PredictionKind::kProbability,
                                          .labels = job::LabelRange::kZeroToOne,
                                          .read = job::MakeLoss<SigmoidCrossEntropy>};
  return kKind;
}

}  // namespace coxswain::model
