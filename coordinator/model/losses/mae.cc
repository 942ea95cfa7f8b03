// mean(|score - label|)
#include "coordinator/model/losses/loss_list.h"
#include "coxswain/function_builder.h"

namespace coxswain::model {
namespace {

class Mae : public job::LossSpec {
 public:
  Output PerExample(FunctionBuilder& f, Output logits, Output label) const override {
    return f.Op("Abs", {f.Sub(logits, label)});
  }
  double FirstScore(double mean_label) const override { return mean_label; }
};

}  // namespace

const job::LossKind& MaeLoss() {
  static constexpr job::LossKind kKind = {
      .name = "mae", .prediction = job::PredictionKind::kNumber, .read = job::MakeLoss<Mae>};
  return kKind;
}

}  // namespace coxswain::model
