// mean(-label log p - (1 - label) log(1 - p)), p = 1 / (1 + e^-score)
#include "coordinator/model/losses/loss_list.h"
#include "coxswain/function_builder.h"

namespace coxswain {
namespace {

class SigmoidCrossEntropy : public LossSpec {
 public:
  Output Mean(FunctionBuilder& f, Output logits, Output label) const override {
    return f.Mean(f.SigmoidCrossEntropy(logits, label));
  }
  Output Predict(FunctionBuilder& f, Output logits) const override { return f.Sigmoid(logits); }
};

}  // namespace

const LossKind& SigmoidCrossEntropyLoss() {
  static constexpr LossKind kKind = {.name = "sigmoid_cross_entropy",
                                     .prediction = PredictionKind::kProbability,
                                     .labels = LabelRange::kZeroToOne,
                                     .read = MakeLoss<SigmoidCrossEntropy>};
  return kKind;
}

}  // namespace coxswain
