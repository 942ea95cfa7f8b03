// The metrics that a job can name. Each is one file in coordinator/model/metrics, and a line in the
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
  // Positions from here on: a job has the metric only if it names it.
  static constexpr int kIfNamed = 100;
  // What a metric measures, and its position among the metrics that a job has by default.
  struct Of {
    PredictionKind prediction;
    int place;
  };

  const char* name;  // "auc"; "hit_rate@10", where any other number may stand for the 10
  bool higher_is_better;
  bool has_k = false;
  bool by_group = false;  // measures groups of examples: needs evaluate.group
  // Whether values can be ordered from worse to better, so that early stopping can use the metric.
  bool compares = true;
  // The kinds of predictions that it can measure; empty: a metric of words, which comes with the
  // model.
  absl::Span<const Of> of = {};
  // Null if the metric is not computed over examples: see model/word_eval.h.
  std::unique_ptr<model::Metric> (*make)(int64_t k) = nullptr;
};

// All of them, in the order of the list: coordinator/model/metrics/metric_list.cc.
const std::vector<const MetricKind*>& AllMetricKinds();
// Finds a metric by its name in the list. Null when there is none.
const MetricKind* FindMetricKind(absl::string_view name);
// The metrics of a kind of prediction, the defaults first.
std::vector<const MetricKind*> MetricsOf(PredictionKind prediction);
// The metrics that a job has when it names none.
std::vector<const MetricKind*> DefaultMetrics(PredictionKind prediction);

}  // namespace coxswain::job
