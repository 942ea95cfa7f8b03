#include "coordinator/model/metrics/ranked_lists.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace coxswain::model {

std::vector<int64_t> PlacesOf(std::vector<RankedItem> items) {
  // Of equal ranks, one that is no candidate first: a candidate that scored less would be among
  // those above the other.
  std::sort(items.begin(), items.end(), [](const RankedItem& a, const RankedItem& b) {
    return std::make_pair(a.rank, a.unseen) < std::make_pair(b.rank, b.unseen);
  });
  std::vector<int64_t> places;
  absl::flat_hash_set<int64_t> candidates;
  std::vector<bool> counted;
  for (const RankedItem& item : items) {
    counted.push_back(item.unseen >= 0 && candidates.insert(item.unseen).second);
  }
  int64_t next = 0, not_counted = 0;
  for (size_t i = 0, end = 0; i < items.size(); i = end) {
    // Candidates of equal scores are among those above each other.
    int64_t equal = 0;
    for (end = i; end < items.size() && items[end].rank == items[i].rank; ++end) {
      equal += counted[end] ? 1 : 0;
    }
    const int64_t rank = items[i].rank - std::max<int64_t>(equal - 1, 0);
    for (size_t j = i; j < end; ++j) {
      places.push_back(std::max(rank + not_counted, next));
      next = places.back() + 1;
      not_counted += counted[j] ? 0 : 1;
    }
  }
  return places;
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
  for (size_t i = 0; i < m.ranks.size(); ++i) {
    left_out_ = left_out_ || m.ranks[i] < 0;
    if (m.ranks[i] < 0) continue;
    if (m.group.empty()) {
      sum_ += m.weight_of(i) * OfList(m.ranks.subspan(i, 1));
      weights_ += m.weight_of(i);
      continue;
    }
    List& list = lists_[m.group[i]];
    list.items.push_back({m.ranks[i], m.unseen.empty() ? -1 : m.unseen[i]});
    list.weight += m.weight_of(i);
  }
}

double ListMetric::Value(double) const {
  double sum = sum_, weights = weights_;
  for (const auto& [group, list] : lists_) {
    const double weight = list.weight / static_cast<double>(list.items.size());
    sum += weight * OfList(PlacesOf(list.items));
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
