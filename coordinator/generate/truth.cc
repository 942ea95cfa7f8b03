#include "coordinator/generate/truth.h"

#include <algorithm>
#include <cmath>

namespace coxswain::generate {
namespace {

constexpr double kLargestLogit = 16;
constexpr size_t kBins = 8192;

size_t BinOf(double logit) {
  const double at = (logit + kLargestLogit) / (2 * kLargestLogit) * static_cast<double>(kBins);
  return static_cast<size_t>(std::clamp(at, 0.0, static_cast<double>(kBins - 1)));
}

void AddTo(const std::vector<double>& from, std::vector<double>* to) {
  for (size_t i = 0; i < from.size(); ++i) (*to)[i] += from[i];
}

}  // namespace

ClickTruth::ClickTruth()
    : expected_positive_(kBins),
      expected_negative_(kBins),
      drawn_positive_(kBins),
      drawn_negative_(kBins) {}

void ClickTruth::Add(double logit, bool label) {
  const size_t bin = BinOf(logit);
  const double p = 1 / (1 + std::exp(-logit));
  const double loss_if_one = std::log1p(std::exp(-logit)), loss_if_zero = loss_if_one + logit;
  ++rows_;
  positives_ += int{label};
  expected_loss_ += p * loss_if_one + (1 - p) * loss_if_zero;
  drawn_loss_ += label ? loss_if_one : loss_if_zero;
  expected_positive_[bin] += p;
  expected_negative_[bin] += 1 - p;
  (label ? drawn_positive_ : drawn_negative_)[bin] += 1;
}

void ClickTruth::Merge(const ClickTruth& other) {
  rows_ += other.rows_;
  positives_ += other.positives_;
  expected_loss_ += other.expected_loss_;
  drawn_loss_ += other.drawn_loss_;
  AddTo(other.expected_positive_, &expected_positive_);
  AddTo(other.expected_negative_, &expected_negative_);
  AddTo(other.drawn_positive_, &drawn_positive_);
  AddTo(other.drawn_negative_, &drawn_negative_);
}

double ClickTruth::log_loss() const {
  return rows_ == 0 ? 0 : expected_loss_ / static_cast<double>(rows_);
}

double ClickTruth::drawn_log_loss() const {
  return rows_ == 0 ? 0 : drawn_loss_ / static_cast<double>(rows_);
}

double ClickTruth::Area(const std::vector<double>& positive, const std::vector<double>& negative) {
  double below = 0, won = 0, positives = 0;
  for (size_t i = 0; i < positive.size(); ++i) {
    won += positive[i] * (below + negative[i] / 2);
    below += negative[i];
    positives += positive[i];
  }
  return positives == 0 || below == 0 ? 0.5 : won / (positives * below);
}

double NoiseTruth::rmse() const {
  return rows_ == 0 ? 0 : std::sqrt(squares_ / static_cast<double>(rows_));
}

}  // namespace coxswain::generate
