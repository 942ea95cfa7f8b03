#include "coordinator/model/metrics/ranked_lists.h"

#include <algorithm>
#include <utility>

namespace coxswain::model {

std::vector<int64_t> PlacesOf(std::vector<int64_t> ranks, bool others_left_out) {
  std::sort(ranks.begin(), ranks.end());
  int64_t next = 0;
  for (size_t j = 0; j < ranks.size(); ++j) {
    if (others_left_out) {
      ranks[j] += static_cast<int64_t>(j);
      continue;
    }
    ranks[j] = std::max(ranks[j], next);
    next = ranks[j] + 1;
  }
  return ranks;
}

void ListMetric::Add(const Measured& m) {
  others_left_out_ = m.others_left_out;
  for (size_t i = 0; i < m.ranks.size(); ++i) {
    left_out_ = left_out_ || m.ranks[i] < 0;
    if (m.ranks[i] < 0) continue;
    if (m.group.empty()) {
      sum_ += m.weight_of(i) * OfList(m.ranks.subspan(i, 1));
      weights_ += m.weight_of(i);
      continue;
    }
    List& list = lists_[m.group[i]];
    list.ranks.push_back(m.ranks[i]);
    list.weight += m.weight_of(i);
  }
}

double ListMetric::Value(double) const {
  double sum = sum_, weights = weights_;
  for (const auto& [group, list] : lists_) {
    const double weight = list.weight / static_cast<double>(list.ranks.size());
    sum += weight * OfList(PlacesOf(list.ranks, others_left_out_));
    weights += weight;
  }
  return sum / weights;
}

std::string ListMetric::WhyUndefined() const {
  return left_out_ && lists_.empty() && weights_ == 0 ? kNothingRanked : "";
}

}  // namespace coxswain::model
