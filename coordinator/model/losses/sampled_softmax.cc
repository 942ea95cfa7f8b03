// -log(e^s / (e^s + sum_n e^s_n / (N p(n)))): the softmax over all items, its sum estimated by N
// that are drawn with probabilities p.
#include "coordinator/job/job_sections.h"
#include "coordinator/model/losses/loss_list.h"

namespace coxswain::model {
namespace {

constexpr job::SchemaKey kKeys[] = {
    job::Key<&job::SamplingSpec::negatives>(
        "negatives", "1024", "items drawn for each step; all examples of its batch share them")
        .Min(1),
    job::Key<&job::SamplingSpec::distribution>("distribution", "uniform",
                                               "how they are drawn; the loss is corrected for it"),
    job::Key<&job::SamplingSpec::distortion>(
        "distortion", "1", "`popularity` is how often an item occurs, to this power")
        .Min(0)
        .Max(10),
    job::Key<&job::SamplingSpec::temperature>("temperature", "1", "scores are divided by it")
        .Above(0),
};

class SampledSoftmax : public job::LossSpec {
 public:
  job::SamplingSpec options;

  const job::SamplingSpec* sampling() const override { return &options; }

  void Check(const job::JobReader& reader) const override {
    if (options.distribution == job::Distribution::kUniform &&
        reader.file.Sub("loss").Given("distortion")) {
      reader.Error("loss.distortion", "only with distribution: popularity");
    }
  }
};

}  // namespace

const job::LossKind& SampledSoftmaxLoss() {
  static constexpr job::LossKind kKind = {.name = "sampled_softmax",
                                          .prediction = job::PredictionKind::kRank,
                                          .keys = kKeys,
                                          .read = job::ReadLossKeys<SampledSoftmax, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
