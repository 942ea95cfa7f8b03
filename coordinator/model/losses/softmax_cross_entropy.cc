// mean(-log p_label), p = softmax(scores of the classes)
#include "coordinator/model/losses/loss_list.h"
#include "coxswain/function_builder.h"

namespace coxswain {
namespace {

class SoftmaxCrossEntropy : public LossSpec {
 public:
  Output Mean(FunctionBuilder& f, Output logits, Output label) const override {
    return f.Mean(f.Op("SparseSoftmaxCrossEntropy", {logits, f.Cast(label, DType::kI64)}));
  }
  Output Predict(FunctionBuilder& f, Output logits) const override { return f.Softmax(logits); }
};

}  // namespace

const LossKind& SoftmaxCrossEntropyLoss() {
  static constexpr LossKind kKind = {.name = "softmax_cross_entropy",
                                     .prediction = PredictionKind::kClasses,
                                     .labels = LabelRange::kClass,
                                     .read = MakeLoss<SoftmaxCrossEntropy>};
  return kKind;
}

}  // namespace coxswain
