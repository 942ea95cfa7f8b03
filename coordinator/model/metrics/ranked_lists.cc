#include "coordinator/model/metrics/ranked_lists.h"

#include <algorithm>
#include <limits>
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

double ListMetric::OfLabels(absl::Span<const float> labels) const {
  std::vector<int64_t> places;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] > 0) places.push_back(static_cast<int64_t>(i));
  }
  return OfList(places);
}

void ListMetric::AddQueries(const Measured& m) {
  for (size_t i = 0; i < m.label.size(); ++i) {
    Query& query = queries_[m.group[i]];
    query.rows.emplace_back(m.prediction[i], m.label[i]);
    query.weight += m.weight_of(i);
  }
}

void ListMetric::AddQuery(Query query, double* sum, double* weights) const {
  // A score that is no number comes first, as if it were above all others.
  const auto key = [](const std::pair<float, float>& row) {
    const bool number = row.first == row.first;
    return std::make_pair(number ? -row.first : -std::numeric_limits<float>::infinity(),
                          row.second);
  };
  std::sort(query.rows.begin(), query.rows.end(),
            [&](const auto& a, const auto& b) { return key(a) < key(b); });
  std::vector<float> labels;
  for (const auto& [score, label] : query.rows) labels.push_back(label);
  if (!std::any_of(labels.begin(), labels.end(), [](float label) { return label > 0; })) return;
  const double weight = query.weight / static_cast<double>(labels.size());
  *sum += weight * OfLabels(labels);
  *weights += weight;
}

void ListMetric::Add(const Measured& m) {
  if (m.ranks.empty() && m.group.size() == m.label.size() && m.classes == 1) AddQueries(m);
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
  for (const auto& [group, query] : queries_) AddQuery(query, &sum, &weights);
  return sum / weights;
}

std::string ListMetric::WhyUndefined() const {
  if (!queries_.empty()) {
    double sum = 0, weights = 0;
    for (const auto& [group, query] : queries_) AddQuery(query, &sum, &weights);
    return weights > 0 ? "" : "no query has a row with a label above 0";
  }
  return left_out_ && lists_.empty() && weights_ == 0 ? kNothingRanked : "";
}

}  // namespace coxswain::model
