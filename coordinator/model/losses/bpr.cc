// Bayesian personalized ranking (Rendle et al., 2009): an example's item i against N drawn ones,
//   mean_n -log s(x_i - x_n)
// x being scores and s the sigmoid; over those n that the example does not have itself.
#include "coordinator/job/job_sections.h"
#include "coordinator/job/size_limits.h"
#include "coordinator/model/losses/loss_list.h"
#include "coordinator/model/losses/ranking_parts.h"

namespace coxswain::model {
namespace {

constexpr job::SchemaKey kKeys[] = {
    job::Key<&job::SamplingSpec::negatives>(
        "negatives", "128",
        "number of negative items sampled per step and shared by all examples of the batch")
        .Min(1)
        .Max(job::kMostNegatives),
    job::Key<&job::SamplingSpec::distribution>("distribution", "uniform",
                                               "distribution that negatives are sampled from"),
    DistortionKey(),
    TemperatureKey<&job::SamplingSpec::temperature>(),
    RejectKnownKey<&job::SamplingSpec::reject_known>("true"),
};

class Bpr : public job::LossSpec {
 public:
  job::SamplingSpec options;

  const job::SamplingSpec* sampling() const override { return &options; }
  void Check(const job::JobReader& reader) const override { CheckDistortion(reader, options); }

  Output PerRanking(FunctionBuilder& f, const job::Ranking& ranking) const override {
    const Output own = f.Reshape(ranking.own, {-1, 1});
    const Output lost = f.Op("Softplus", {f.Sub(BiasedOthers(f, ranking), own)});
    const Output counts = Unknown(f, ranking);
    // An example to which all of them are known has no loss.
    const Output all = f.Op("Maximum", {f.Sum(counts, {1}), f.Scalar(1)});
    return f.Div(f.Sum(f.Mul(lost, counts), {1}), all);
  }
};

}  // namespace

const job::LossKind& BprLoss() {
  static constexpr job::LossKind kKind = {.name = "bpr",
                                          .prediction = job::PredictionKind::kRank,
                                          .keys = kKeys,
                                          .read = job::ReadLossKeys<Bpr, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
