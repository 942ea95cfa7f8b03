// mean((score - label)^2)
#include "coordinator/model/losses/loss_list.h"
#include "coxswain/function_builder.h"

namespace coxswain {
namespace {

class Mse : public LossSpec {
 public:
  Output Mean(FunctionBuilder& f, Output logits, Output label) const override {
    return f.Mean(f.Square(f.Sub(logits, label)));
  }
};

}  // namespace

const LossKind& MseLoss() {
  static constexpr LossKind kKind = {
      .name = "mse", .prediction = PredictionKind::kNumber, .read = MakeLoss<Mse>};
  return kKind;
}

}  // namespace coxswain
