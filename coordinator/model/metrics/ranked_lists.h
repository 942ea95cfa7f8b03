// Metrics of lists. Of rankings: what a group (a user) has in the part that is measured is one list
// of items, each with its place among all candidates. Where examples have no group, each is a list.
// Of queries: a query's rows in the order of their scores are a list, in which those with a label
// above 0 are the items; of equal scores the lower label comes first.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/model/metric.h"

namespace coxswain::model {

struct RankedItem {
  int64_t rank = 0;     // the number of candidates above it
  int64_t unseen = -1;  // the item where it is a candidate for the others of its list, else -1
};

// The places of a list's items among the candidates and each other, ascending. The ranks of the
// others include a candidate already, once; whatever else the list has ahead of an item moves it
// down by one. Candidates of equal scores, which count each other, have different places.
std::vector<int64_t> PlacesOf(std::vector<RankedItem> items);

// The mean of OfList over all lists. A list has the mean weight of its examples.
class ListMetric : public Metric {
 public:
  void Add(const Measured& m) override;
  double Value(double) const override;
  std::string WhyUndefined() const override;

 private:
  // `places`: the places of the list's items among all candidates, from 0, ascending; at least one.
  virtual double OfList(absl::Span<const int64_t> places) const = 0;
  // Of a query's labels in the order of their rows' scores, of which one at least is above 0.
  virtual double OfLabels(absl::Span<const float> labels) const;

  struct List {
    std::vector<RankedItem> items;
    double weight = 0;  // summed
  };
  struct Query {
    std::vector<std::pair<float, float>> rows;  // score, label
    double weight = 0;                          // summed
  };

  void AddQueries(const Measured& m);
  void AddQuery(Query query, double* sum, double* weights) const;

  std::map<int64_t, List> lists_;     // by group
  std::map<int64_t, Query> queries_;  // by group
  bool left_out_ = false;             // some example was not an item of its user's list
  // Sums over examples without a group.
  double sum_ = 0, weights_ = 0;
};

}  // namespace coxswain::model
