// The mean reciprocal rank: over all lists, the mean of 1 / (p + 1), p being the place of the
// list's first item among the candidates, from 0.
#include "coordinator/model/metrics/metric_list.h"
#include "coordinator/model/metrics/ranked_lists.h"

namespace coxswain::model {
namespace {

class Mrr : public ListMetric {
 private:
  double OfList(absl::Span<const int64_t> places) const override {
    return 1 / static_cast<double>(places[0] + 1);
  }
};

}  // namespace

const job::MetricKind& MrrMetric() {
  static constexpr job::MetricKind::Of kOf[] = {
      {job::PredictionKind::kRank, job::MetricKind::kIfNamed + 1},
      {job::PredictionKind::kOrder, 2}};
  static constexpr job::MetricKind kKind = {
      .name = "mrr", .higher_is_better = true, .of = kOf, .make = MakeMetric<Mrr>};
  return kKind;
}

}  // namespace coxswain::model
