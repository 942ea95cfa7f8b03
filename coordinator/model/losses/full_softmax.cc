// -log p_i, p being the softmax of the scores of all items: what the other losses of rankings
// estimate. For catalogues that a step can look at whole.
#include "coordinator/model/losses/loss_list.h"
#include "coordinator/model/losses/ranking_parts.h"

namespace coxswain::model {
namespace {

struct FullSoftmaxOptions {
  double temperature = 1;
};

constexpr job::SchemaKey kKeys[] = {
    TemperatureKey<&FullSoftmaxOptions::temperature>(),
};

class FullSoftmax : public job::LossSpec {
 public:
  FullSoftmaxOptions options;

  job::Against against() const override { return job::Against::kAll; }
  double temperature() const override { return options.temperature; }

  Output PerRanking(FunctionBuilder& f, const job::Ranking& ranking) const override {
    return f.Op("SparseSoftmaxCrossEntropy", {BiasedOthers(f, ranking), ranking.own_ids});
  }
};

}  // namespace

const job::LossKind& FullSoftmaxLoss() {
  static constexpr job::LossKind kKind = {.name = "full_softmax",
                                          .prediction = job::PredictionKind::kRank,
                                          .keys = kKeys,
                                          .read = job::ReadLossKeys<FullSoftmax, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
