// With e = |score - label| and m = min(e, delta): mean(m (e - m / 2)), which is e^2 / 2 for errors
// up to delta, and delta (e - delta / 2), a line of the same slope there, for larger ones (Huber,
// 1964).
#include "coordinator/model/losses/loss_list.h"
#include "coxswain/function_builder.h"

namespace coxswain::model {
namespace {

struct HuberOptions {
  double delta = 1;
};

constexpr job::SchemaKey kKeys[] = {
    job::Key<&HuberOptions::delta>("delta", "1", "absolute error above which the loss is linear")
        .Above(0),
};

class Huber : public job::LossSpec {
 public:
  HuberOptions options;

  Output PerExample(FunctionBuilder& f, Output logits, Output label) const override {
    const Output error = f.Op("Abs", {f.Sub(logits, label)});
    const Output near = f.Op("Minimum", {error, f.Scalar(static_cast<float>(options.delta))});
    return f.Mul(near, f.Sub(error, f.Mul(near, f.Scalar(0.5f))));
  }
  double FirstScore(double mean_label) const override { return mean_label; }
};

}  // namespace

const job::LossKind& HuberLoss() {
  static constexpr job::LossKind kKind = {.name = "huber",
                                          .prediction = job::PredictionKind::kNumber,
                                          .keys = kKeys,
                                          .read = job::ReadLossKeys<Huber, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
