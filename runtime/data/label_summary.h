// How the labels of a part are spread: what a person looks at before training. Rows of weight 0 are
// left out.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace coxswain::data {

struct LabelSummary {
  static constexpr size_t kMostValues = 32;

  int64_t count = 0;
  double sum = 0;
  float low = 0, high = 0;
  // How often each value occurs; empty when there are more than kMostValues of them.
  std::map<float, int64_t> values;
  bool many = false;  // there are

  double weight = 0, weighted_sum = 0;  // of the labels, by their rows' weights

  void Add(float label, double row_weight = 1);
  bool constant() const { return count > 0 && low == high; }
  double mean() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
  // A row with the weight 3 counts like three rows.
  double weighted_mean() const { return weight > 0 ? weighted_sum / weight : mean(); }
  // "0 74.4%, 1 25.6%", or "mean 3.502, 0.5 to 5".
  std::string ToString() const;
};

}  // namespace coxswain::data
