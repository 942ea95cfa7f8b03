// -log s(u v) - k / N sum_n log s(-u_n v), s being the sigmoid: a pair against N words that are
// drawn by their counts and count as k (Mikolov et al., 2013).
#include "coordinator/job/size_limits.h"
#include "coordinator/model/losses/loss_list.h"

namespace coxswain::model {
namespace {

constexpr job::SchemaKey kKeys[] = {
    job::Key<&job::SamplingSpec::negatives>(
        "negatives", "128",
        "number of negative words sampled per step and shared by all pairs of the batch")
        .Min(1)
        .Max(job::kMostNegatives),
    job::Key<&job::SamplingSpec::negatives_per_pair>(
        "negatives_per_pair", "5",
        "number of negatives that all sampled words together count as, for each pair")
        .Above(0),
    job::Key<&job::SamplingSpec::distortion>(
        "distortion", "0.75",
        "exponent of the words' frequencies, in proportion to which negatives are sampled")
        .Min(0)
        .Max(10),
};

class NegativeSampling : public job::LossSpec {
 public:
  job::SamplingSpec options = {.distribution = job::Distribution::kPopularity};

  const job::SamplingSpec* sampling() const override { return &options; }
};

}  // namespace

const job::LossKind& NegativeSamplingLoss() {
  static constexpr job::LossKind kKind = {.name = "negative_sampling",
                                          .prediction = job::PredictionKind::kPairs,
                                          .keys = kKeys,
                                          .read = job::ReadLossKeys<NegativeSampling, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
