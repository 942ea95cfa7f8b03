// Spearman's correlation of the cosines of words with how alike people find them:
// model/word_eval.h.
#include "coordinator/model/metrics/metric_list.h"

namespace coxswain::model {

const job::MetricKind& WordSimilarityMetric() {
  static constexpr job::MetricKind kKind = {.name = "word_similarity", .higher_is_better = true};
  return kKind;
}

}  // namespace coxswain::model
