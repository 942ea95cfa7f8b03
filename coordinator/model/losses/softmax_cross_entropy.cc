// mean(-log p_label), p = softmax(scores of the classes)
#include "coordinator/model/losses/loss_list.h"
#include "coxswain/function_builder.h"

namespace coxswain::model {
namespace {

class SoftmaxCrossEntropy : public job::LossSpec {
 public:
  Output PerExample(FunctionBuilder& f, Output logits, Output label) const override {
    return f.Op("SparseSoftmaxCrossEntropy", {logits, f.Cast(label, DType::kI64)});
  }
  Output Predict(FunctionBuilder& f, Output logits) const override { return f.Softmax(logits); }
};

}  // namespace

const job::LossKind& SoftmaxCrossEntropyLoss() {
  static constexpr job::LossKind kKind = {.name = "softmax_cross_entropy",
                                          .prediction = job::PredictionKind::kClasses,
                                          .labels = job::LabelRange::kClass,
                                          .read = job::MakeLoss<SoftmaxCrossEntropy>};
  return kKind;
}

}  // namespace coxswain::model
