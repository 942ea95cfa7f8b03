#include "coordinator/model/metrics.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace coxswain {

void MetricAccumulator::AddRanks(absl::Span<const int64_t> ranks) {
  ranks_.insert(ranks_.end(), ranks.begin(), ranks.end());
  examples_ += static_cast<int64_t>(ranks.size());
}

absl::Status MetricAccumulator::AddPredictions(const Tensor& prediction, const Tensor& label) {
  if (prediction.dtype() != DType::kF32 || label.dtype() != DType::kF32 || label.rank() != 1 ||
      prediction.rank() < 1 || prediction.dim(0) != label.dim(0)) {
    return absl::InternalError(absl::StrCat("an evaluation step returned predictions ",
                                            prediction.ToString(), " for labels ",
                                            label.ToString()));
  }
  constexpr double kTiny = 1e-7;
  const int64_t n = label.dim(0);
  const int64_t classes = prediction.rank() == 2 ? prediction.dim(1) : 1;
  const float* p = prediction.data<float>();
  const float* y = label.data<float>();
  for (int64_t i = 0; i < n; ++i) {
    if (classes == 1) {
      const double chance = std::clamp<double>(p[i], kTiny, 1 - kTiny);
      squared_error_ += (p[i] - y[i]) * static_cast<double>(p[i] - y[i]);
      log_loss_ -= y[i] > 0.5f ? std::log(chance) : std::log1p(-chance);
      correct_ += (p[i] > 0.5f) == (y[i] > 0.5f);
      scored_.emplace_back(p[i], y[i]);
    } else {
      const float* row = p + i * classes;
      const int64_t wanted = static_cast<int64_t>(y[i]);
      correct_ += std::max_element(row, row + classes) - row == wanted;
      if (wanted >= 0 && wanted < classes)
        log_loss_ -= std::log(std::max<double>(row[wanted], kTiny));
    }
  }
  examples_ += n;
  return absl::OkStatus();
}

absl::Status MetricAccumulator::AddLoss(const Tensor& loss, const Tensor& pairs) {
  const auto number = [](const Tensor& t) {
    return t.dtype() == DType::kF32 && t.num_elements() == 1;
  };
  if (!number(loss) || !number(pairs)) {
    return absl::InternalError(absl::StrCat("wanted two numbers, a loss and its pairs; found ",
                                            loss.shape().ToString(), " and ",
                                            pairs.shape().ToString()));
  }
  loss_ += static_cast<double>(loss.data<float>()[0]);
  examples_ += std::llround(pairs.data<float>()[0]);
  return absl::OkStatus();
}

std::map<std::string, double> MetricAccumulator::Compute() const {
  std::map<std::string, double> values;
  if (examples_ == 0) return values;
  const double n = static_cast<double>(examples_);
  for (const MetricSpec& metric : metrics_) {
    switch (metric.kind) {
      case MetricKind::kHitRate:
        values[metric.name] =
            static_cast<double>(std::count_if(ranks_.begin(), ranks_.end(),
                                              [&](int64_t r) { return r < metric.k; })) /
            n;
        break;
      case MetricKind::kRmse:
        values[metric.name] = std::sqrt(squared_error_ / n);
        break;
      case MetricKind::kLogLoss:
        values[metric.name] = log_loss_ / n;
        break;
      case MetricKind::kAccuracy:
        values[metric.name] = static_cast<double>(correct_) / n;
        break;
      case MetricKind::kAuc:
        values[metric.name] = AreaUnderCurve(scored_);
        break;
      case MetricKind::kValidationLoss:
        values[metric.name] = loss_ / n;
        break;
      case MetricKind::kWordSimilarity:
      case MetricKind::kAnalogies:
        break;  // not of examples: word_eval.h
    }
  }
  return values;
}

std::map<std::string, std::string> MetricAccumulator::Undefined() const {
  std::map<std::string, std::string> reasons;
  const auto positive = [](const auto& scored) { return scored.second > 0.5f; };
  const auto positives = std::count_if(scored_.begin(), scored_.end(), positive);
  const bool one_class = positives == 0 || positives == static_cast<int64_t>(scored_.size());
  for (const MetricSpec& metric : metrics_) {
    if (metric.kind != MetricKind::kAuc || scored_.empty() || !one_class) continue;
    reasons[metric.name] = absl::StrCat("all labels are ", positives == 0 ? 0 : 1);
  }
  return reasons;
}

double AreaUnderCurve(std::vector<std::pair<float, float>> scored) {
  // A model that has diverged: its scores have no order.
  for (const auto& [score, label] : scored) {
    if (std::isnan(score) || std::isnan(label)) return std::nan("");
  }
  std::sort(scored.begin(), scored.end());
  double positives = 0, rank_sum = 0;
  for (size_t begin = 0; begin < scored.size();) {
    size_t end = begin;
    while (end < scored.size() && scored[end].first == scored[begin].first) ++end;
    const double mean_rank = 0.5 * static_cast<double>(begin + 1 + end);
    for (size_t i = begin; i < end; ++i) {
      if (scored[i].second > 0.5f) {
        positives += 1;
        rank_sum += mean_rank;
      }
    }
    begin = end;
  }
  const double negatives = static_cast<double>(scored.size()) - positives;
  if (positives == 0 || negatives == 0) return std::nan("");
  return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives);
}

}  // namespace coxswain
