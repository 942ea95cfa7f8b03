// The metrics that a job can name. Each is one file of coordinator/model/metrics, and a line in the
// list there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "coordinator/job/loss_kind.h"

namespace coxswain::model {
class Metric;
}  // namespace coxswain::model

namespace coxswain::job {

struct MetricKind {
  // A place from here on: a job has the metric only if it names it.
  static constexpr int kIfNamed = 100;
  // What a metric measures, and its place among those that a job has when it names none.
  struct Of {
    PredictionKind prediction;
    int place;
  };

  const char* name;  // "auc"; "hit_rate@10", where any other number may stand for the 10
  bool higher_is_better;
  bool has_k = false;
  bool by_group = false;  // of groups of examples: wants evaluate.group
  // Whether one value is better than another, so that early stopping may go by it.
  bool compares = true;
  // Of predictions that a job can ask to be measured; none: comes with the model (of words).
  absl::Span<const Of> of = {};
  // Null where it is not counted over examples: model/word_eval.h.
  std::unique_ptr<model::Metric> (*make)(int64_t k) = nullptr;
};

// All of them, in the order of the list: coordinator/model/metrics/metric_list.cc.
const std::vector<const MetricKind*>& AllMetricKinds();
// By the name of the list. Null when there is none.
const MetricKind* FindMetricKind(absl::string_view name);
// Those of a prediction, the defaults first.
std::vector<const MetricKind*> MetricsOf(PredictionKind prediction);
// Those that a job has when it names none.
std::vector<const MetricKind*> DefaultMetrics(PredictionKind prediction);

}  // namespace coxswain::job
