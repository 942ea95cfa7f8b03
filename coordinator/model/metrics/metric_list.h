// The metrics, one line each. X(auc, AucMetric) stands for coordinator/model/metrics/auc.cc, which
// defines `const job::MetricKind& AucMetric()`.
#pragma once

#include "coordinator/model/metric.h"

#define COX_METRICS(X)                         \
  X(auc, AucMetric)                            \
  X(logloss, LogLossMetric)                    \
  X(accuracy, AccuracyMetric)                  \
  X(rmse, RmseMetric)                          \
  X(hit_rate, HitRateMetric)                   \
  X(ndcg, NdcgMetric)                          \
  X(mrr, MrrMetric)                            \
  X(map, MapMetric)                            \
  X(precision, PrecisionMetric)                \
  X(recall, RecallMetric)                      \
  X(pr_auc, PrAucMetric)                       \
  X(f1, F1Metric)                              \
  X(calibration, CalibrationMetric)            \
  X(calibration_error, CalibrationErrorMetric) \
  X(auc_by_group, AucByGroupMetric)            \
  X(logloss_by_group, LogLossByGroupMetric)    \
  X(top_accuracy, TopAccuracyMetric)           \
  X(mae, MaeMetric)                            \
  X(word_similarity, WordSimilarityMetric)     \
  X(analogies, AnalogiesMetric)                \
  X(validation_loss, ValidationLossMetric)

namespace coxswain::model {

#define COX_DECLARE(file, function) const job::MetricKind& function();
COX_METRICS(COX_DECLARE)
#undef COX_DECLARE

}  // namespace coxswain::model
