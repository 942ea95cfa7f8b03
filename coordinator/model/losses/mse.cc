// mean((score - label)^2)
#include "coordinator/model/losses/loss_list.h"
#include "coxswain/function_builder.h"

namespace coxswain::model {
namespace {

class Mse : public job::LossSpec {
 public:
  Output PerExample(FunctionBuilder& f, Output logits, Output label) const override {
    return f.Square(f.Sub(logits, label));
  }
  double FirstScore(double mean_label) const override { return mean_label; }
};

}  // namespace

const job::LossKind& MseLoss() {
  static constexpr job::LossKind kKind = {
      .name = "mse", .prediction = job::PredictionKind::kNumber, .read = job::MakeLoss<Mse>};
  return kKind;
}

}  // namespace coxswain::model
