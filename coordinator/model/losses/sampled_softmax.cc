// -log(e^s / (e^s + sum_n e^s_n / (N p(n)))): the softmax over all items, its sum estimated by N
// that are drawn with probabilities p.
#include "coordinator/job/job_sections.h"
#include "coordinator/job/size_limits.h"
#include "coordinator/model/losses/loss_list.h"
#include "coordinator/model/losses/ranking_parts.h"

namespace coxswain::model {
namespace {

constexpr job::SchemaKey kKeys[] = {
    job::Key<&job::SamplingSpec::negatives>(
        "negatives", "1024",
        "number of negative items sampled per step and shared by all examples of the batch")
        .Min(1)
        .Max(job::kMostNegatives),
    job::Key<&job::SamplingSpec::distribution>(
        "distribution", "uniform",
        "distribution that negatives are sampled from; the loss is corrected for it"),
    DistortionKey(),
    TemperatureKey<&job::SamplingSpec::temperature>(),
    RejectKnownKey<&job::SamplingSpec::reject_known>("false"),
};

class SampledSoftmax : public job::LossSpec {
 public:
  job::SamplingSpec options;

  const job::SamplingSpec* sampling() const override { return &options; }
  void Check(const job::JobReader& reader) const override { CheckDistortion(reader, options); }

  Output PerRanking(FunctionBuilder& f, const job::Ranking& ranking) const override {
    const Output shift =
        ranking.biases.valid() ? f.Add(ranking.biases, ranking.correction) : ranking.correction;
    const Output others = f.Add(ranking.others, shift);
    const Attrs corrected = {{"negative_offset", 0.0}};
    if (!options.reject_known) {
      return f.Op("SampledSoftmaxCrossEntropy", {ranking.own, others}, corrected);
    }
    return f.Op("SampledSoftmaxCrossEntropy",
                {ranking.own, WithoutKnown(f, others, ranking), ranking.own_ids, ranking.other_ids},
                corrected);
  }
};

}  // namespace

const job::LossKind& SampledSoftmaxLoss() {
  static constexpr job::LossKind kKind = {.name = "sampled_softmax",
                                          .prediction = job::PredictionKind::kRank,
                                          .of_words = true,
                                          .keys = kKeys,
                                          .read = job::ReadLossKeys<SampledSoftmax, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
