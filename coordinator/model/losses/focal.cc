// mean(-alpha label (1 - p)^gamma log p - (1 - alpha) (1 - label) p^gamma log(1 - p)),
// p = 1 / (1 + e^-score): examples that are told well count less (Lin et al., 2017).
#include "coordinator/model/losses/log_odds.h"
#include "coordinator/model/losses/loss_list.h"
#include "coxswain/function_builder.h"

namespace coxswain::model {
namespace {

struct FocalOptions {
  double gamma = 2;
  double alpha = 0.25;
};

constexpr job::SchemaKey kKeys[] = {
    job::Key<&FocalOptions::gamma>("gamma", "2",
                                   "focusing parameter: how strongly well-classified examples are "
                                   "down-weighted; 0: not at all")
        .Min(0)
        .Max(100),
    job::Key<&FocalOptions::alpha>("alpha", "0.25",
                                   "weight of label 1; label 0 has the weight 1 - alpha")
        .Above(0)
        .Max(1),
};

class Focal : public job::LossSpec {
 public:
  FocalOptions options;

  Output PerExample(FunctionBuilder& f, Output logits, Output label) const override {
    // -log p = softplus(-x), -log(1 - p) = softplus(x), so that no logarithm is of 0.
    const Output one = f.Op("Softplus", {f.Neg(logits)}), zero = f.Op("Softplus", {logits});
    const Output of_one = f.Mul(f.Mul(label, f.Scalar(static_cast<float>(options.alpha))),
                                f.Mul(Faded(f, zero), one));
    const Output of_zero =
        f.Mul(f.Mul(f.Sub(f.Scalar(1), label), f.Scalar(static_cast<float>(1 - options.alpha))),
              f.Mul(Faded(f, one), zero));
    return f.Add(of_one, of_zero);
  }
  Output Predict(FunctionBuilder& f, Output logits) const override { return f.Sigmoid(logits); }
  double FirstScore(double mean_label) const override { return LogOdds(mean_label); }

 private:
  // q^gamma, given -log q.
  Output Faded(FunctionBuilder& f, Output minus_log) const {
    return f.Exp(f.Mul(minus_log, f.Scalar(static_cast<float>(-options.gamma))));
  }
};

}  // namespace

const job::LossKind& FocalLoss() {
  static constexpr job::LossKind kKind = {.name = "focal",
                                          .prediction = job::PredictionKind::kProbability,
                                          .labels = job::LabelRange::kZeroToOne,
                                          .keys = kKeys,
                                          .read = job::ReadLossKeys<Focal, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
