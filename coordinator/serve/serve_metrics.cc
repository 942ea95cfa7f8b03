#include "coordinator/serve/serve_metrics.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"

namespace coxswain::serve {
namespace {

constexpr int kOk = 200, kTooMany = 429, kServerError = 500;

// Upper bounds of the histogram's buckets, in seconds.
prometheus::Histogram::BucketBoundaries Bounds() {
  return {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5};
}

prometheus::Counter& Requests(prometheus::Registry& registry, const char* outcome) {
  return prometheus::BuildCounter()
      .Name("coxswain_serve_requests_total")
      .Help("Requests for predictions, by outcome")
      .Register(registry)
      .Add({{"outcome", outcome}});
}

prometheus::MetricFamily Gauges(const char* name, const char* help) {
  return {name, help, prometheus::MetricType::Gauge, {}};
}

}  // namespace

ServeMetrics::ServeMetrics()
    : registry_(std::make_unique<prometheus::Registry>()),
      done_(Requests(*registry_, "done")),
      wrong_(Requests(*registry_, "wrong")),
      refused_(Requests(*registry_, "refused")),
      failed_(Requests(*registry_, "failed")),
      rows_(prometheus::BuildCounter()
                .Name("coxswain_serve_rows_total")
                .Help("Rows that were predicted")
                .Register(*registry_)
                .Add({})),
      reload_failures_(prometheus::BuildCounter()
                           .Name("coxswain_serve_reload_failures_total")
                           .Help("Times that a newer model or checkpoint could not be loaded")
                           .Register(*registry_)
                           .Add({})),
      answers_(prometheus::BuildCounter()
                   .Name("coxswain_serve_answers_total")
                   .Help("Answers to requests of any kind, by status of HTTP")
                   .Register(*registry_)),
      took_(prometheus::BuildHistogram()
                .Name("coxswain_serve_request_seconds")
                .Help("Time of requests that were answered, waiting included")
                .Register(*registry_)
                .Add({}, Bounds())) {}

ServeMetrics::~ServeMetrics() = default;

void ServeMetrics::CountPrediction(int status, int64_t rows, absl::Duration took) {
  if (status == kTooMany) {
    refused_.Increment();
    return;
  }
  if (status != kOk) {
    (status >= kServerError ? failed_ : wrong_).Increment();
    return;
  }
  done_.Increment();
  rows_.Increment(static_cast<double>(rows));
  took_.Observe(absl::ToDoubleSeconds(took));
}

void ServeMetrics::CountAnswer(int status) {
  if (status < 0 || static_cast<size_t>(status) >= of_status_.size()) return;
  std::atomic<prometheus::Counter*>& known = of_status_[static_cast<size_t>(status)];
  prometheus::Counter* counter = known.load();
  if (counter == nullptr) {  // the family gives the same one to all who ask at once
    counter = &answers_.Add({{"status", absl::StrCat(status)}});
    known = counter;
  }
  counter->Increment();
}

void ServeMetrics::CountReloadFailure() { reload_failures_.Increment(); }

std::string ServeMetrics::Text(int64_t steps, const std::vector<Index>& indexes) const {
  std::vector<prometheus::MetricFamily> families = registry_->Collect();
  // Of the model, not of what was counted: another one may answer the next request.
  prometheus::MetricFamily of_model =
      Gauges("coxswain_serve_model_steps", "Steps of training of the model that answers");
  of_model.metric.emplace_back().gauge.value = static_cast<double>(steps);
  families.push_back(std::move(of_model));
  prometheus::MetricFamily recalls = Gauges(
      "coxswain_serve_index_recall", "Share of the ten best that an index finds, as measured");
  for (const Index& index : indexes) {
    prometheus::ClientMetric& recall = recalls.metric.emplace_back();
    recall.label = {{"table", index.table}};
    recall.gauge.value = index.recall;
  }
  if (!indexes.empty()) families.push_back(std::move(recalls));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace coxswain::serve
