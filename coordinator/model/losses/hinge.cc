// mean(max(0, 1 - y score)), y being -1 for the label 0 and 1 for the label 1: a linear support
// vector machine's. The prediction is s(score), s being the sigmoid, so that it is above 1/2 where
// the score is above 0; it orders examples, but is no probability.
#include "coordinator/model/losses/loss_list.h"
#include "coxswain/function_builder.h"

namespace coxswain::model {
namespace {

class Hinge : public job::LossSpec {
 public:
  Output PerExample(FunctionBuilder& f, Output logits, Output label) const override {
    const Output y = f.Sub(f.Mul(label, f.Scalar(2)), f.Scalar(1));
    return f.Relu(f.Sub(f.Scalar(1), f.Mul(y, logits)));
  }
  Output Predict(FunctionBuilder& f, Output logits) const override { return f.Sigmoid(logits); }
};

}  // namespace

const job::LossKind& HingeLoss() {
  static constexpr job::LossKind kKind = {.name = "hinge",
                                          .prediction = job::PredictionKind::kProbability,
                                          .labels = job::LabelRange::kZeroToOne,
                                          .read = job::MakeLoss<Hinge>};
  return kKind;
}

}  // namespace coxswain::model
