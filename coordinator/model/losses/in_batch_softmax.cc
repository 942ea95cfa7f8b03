// The softmax over the items of the batch: with x the scores, j the other examples of the batch and
// q(i) how often item i is in the training data,
//   -log(e^(x_i - log q(i)) / (e^(x_i - log q(i)) + sum_{j: item j not i} e^(x_j - log q(j))))
// An item is among the others as often as it is in the data, and the correction makes up for that
// (Yi et al., 2019); without it popular items would be pushed down.
#include "coordinator/model/losses/loss_list.h"
#include "coordinator/model/losses/ranking_parts.h"

namespace coxswain::model {
namespace {

struct InBatchOptions {
  bool correct = true;
  double temperature = 1;
  bool reject_known = false;
};

constexpr job::SchemaKey kKeys[] = {
    job::Key<&InBatchOptions::correct>("correct", "true",
                                       "subtract log q from each item's score, q being the item's "
                                       "frequency in the training data (logQ correction)"),
    TemperatureKey<&InBatchOptions::temperature>(),
    RejectKnownKey<&InBatchOptions::reject_known>("true"),
};

class InBatchSoftmax : public job::LossSpec {
 public:
  InBatchOptions options;

  job::Against against() const override { return job::Against::kBatch; }
  double temperature() const override { return options.temperature; }
  bool rejects_known() const override { return options.reject_known; }

  Output PerRanking(FunctionBuilder& f, const job::Ranking& ranking) const override {
    Output own = ranking.own, others = BiasedOthers(f, ranking);
    if (options.correct) {
      own = f.Sub(own, ranking.own_log_q);
      others = f.Sub(others, ranking.log_q);
    }
    // The example's own item is left out by its id: it is on the diagonal, and maybe elsewhere.
    return f.Op("SampledSoftmaxCrossEntropy",
                {own, WithoutKnown(f, others, ranking), ranking.own_ids, ranking.other_ids},
                {{"negative_offset", 0.0}});
  }
};

}  // namespace

const job::LossKind& InBatchSoftmaxLoss() {
  static constexpr job::LossKind kKind = {.name = "in_batch_softmax",
                                          .prediction = job::PredictionKind::kRank,
                                          .keys = kKeys,
                                          .read = job::ReadLossKeys<InBatchSoftmax, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
