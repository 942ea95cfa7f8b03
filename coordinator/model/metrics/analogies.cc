// How often the word nearest to b - a + c is d, where a is to b as c is to d: model/word_eval.h.
#include "coordinator/model/metrics/metric_list.h"

namespace coxswain::model {

const job::MetricKind& AnalogiesMetric() {
  static constexpr job::MetricKind kKind = {.name = "analogies", .higher_is_better = true};
  return kKind;
}

}  // namespace coxswain::model
