#include "coordinator/serve/serve_metrics.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace coxswain::serve {
namespace {

constexpr int kOk = 200, kTooMany = 429, kServerError = 500;

void Describe(const char* name, const char* type, const char* help, std::string* text) {
  absl::StrAppend(text, "# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
}

}  // namespace

void ServeMetrics::CountPrediction(int status, int64_t rows, absl::Duration took) {
  if (status == kTooMany) {
    ++refused_;
    return;
  }
  if (status != kOk) {
    ++(status >= kServerError ? failed_ : wrong_);
    return;
  }
  ++done_;
  rows_ += static_cast<uint64_t>(rows);
  microseconds_ += static_cast<uint64_t>(absl::ToInt64Microseconds(took));
  const auto bound = std::lower_bound(kBounds.begin(), kBounds.end(), absl::ToDoubleSeconds(took));
  if (bound != kBounds.end()) ++took_[static_cast<size_t>(bound - kBounds.begin())];
}

std::string ServeMetrics::Text(int64_t steps) const {
  std::string text;
  Describe("coxswain_serve_requests_total", "counter", "Requests for predictions, by outcome",
           &text);
  for (const auto& [outcome, count] :
       {std::pair{"done", done_.load()}, std::pair{"wrong", wrong_.load()},
        std::pair{"refused", refused_.load()}, std::pair{"failed", failed_.load()}}) {
    absl::StrAppend(&text, "coxswain_serve_requests_total{outcome=\"", outcome, "\"} ", count,
                    "\n");
  }
  Describe("coxswain_serve_rows_total", "counter", "Rows that were predicted", &text);
  absl::StrAppend(&text, "coxswain_serve_rows_total ", rows_.load(), "\n");
  Describe("coxswain_serve_model_steps", "gauge", "Steps of training of the model that answers",
           &text);
  absl::StrAppend(&text, "coxswain_serve_model_steps ", steps, "\n");
  Describe("coxswain_serve_request_seconds", "histogram",
           "Time of requests that were answered, waiting included", &text);
  uint64_t below = 0;
  for (size_t i = 0; i < kBounds.size(); ++i) {
    below += took_[i].load();
    absl::StrAppend(&text, "coxswain_serve_request_seconds_bucket{le=\"", kBounds[i], "\"} ", below,
                    "\n");
  }
  const uint64_t all = std::max(below, done_.load());
  absl::StrAppend(&text, "coxswain_serve_request_seconds_bucket{le=\"+Inf\"} ", all,
                  "\ncoxswain_serve_request_seconds_sum ",
                  static_cast<double>(microseconds_.load()) / 1e6,
                  "\ncoxswain_serve_request_seconds_count ", all, "\n");
  return text;
}

}  // namespace coxswain::serve
