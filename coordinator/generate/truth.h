// How good the best model can be: what the planted truth itself scores on the rows that it made.
#pragma once

#include <cstdint>
#include <vector>

namespace coxswain::generate {

// Of labels 0 and 1 drawn with known probabilities. Sums only, so parts can be added up in any
// number; memory does not grow with rows. Thread model: a value.
class ClickTruth {
 public:
  ClickTruth();

  // `logit` of the probability that the label is 1, and the label that was drawn.
  void Add(double logit, bool label);
  void Merge(const ClickTruth& other);

  int64_t rows() const { return rows_; }
  int64_t positives() const { return positives_; }
  // Expected over the draws of the labels: what the best model scores on average.
  double auc() const { return Area(expected_positive_, expected_negative_); }
  double log_loss() const;
  // Of the very labels that were drawn.
  double drawn_auc() const { return Area(drawn_positive_, drawn_negative_); }
  double drawn_log_loss() const;

 private:
  // The area under the ROC curve, a bin's own pairs counted half.
  static double Area(const std::vector<double>& positive, const std::vector<double>& negative);

  int64_t rows_ = 0, positives_ = 0;
  double expected_loss_ = 0, drawn_loss_ = 0;
  // By logit, in bins so narrow that the pairs inside of one count for less than 1e-6.
  std::vector<double> expected_positive_, expected_negative_, drawn_positive_, drawn_negative_;
};

// Of numbers with noise: the noise's root mean square. Thread model: a value.
class NoiseTruth {
 public:
  void Add(double noise) {
    ++rows_;
    squares_ += noise * noise;
  }
  void Merge(const NoiseTruth& other) {
    rows_ += other.rows_;
    squares_ += other.squares_;
  }
  int64_t rows() const { return rows_; }
  double rmse() const;

 private:
  int64_t rows_ = 0;
  double squares_ = 0;
};

}  // namespace coxswain::generate
