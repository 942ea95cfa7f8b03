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

// The mean over all lists of what is said of each. A list counts as much as the mean weight of its
// examples.
class ListMetric : public Metric {
 public:
  void Add(const Measured& m) override;
  double Value(double) const override;
  std::string WhyUndefined() const override;

 private:
  // `places`: of the list's items among all candidates, ascending, 0 the first; at least one.
  virtual double OfList(absl::Span<const int64_t> places) const = 0;
  // Of a query's labels in the order of their rows' scores, of which one at least is above 0.
  virtual double OfLabels(absl::Span<const float> labels) const;

  struct List {
    std::vector<int64_t> ranks;
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
  bool others_left_out_ = false;
  bool left_out_ = false;  // some example was no item of its user's
  // Of examples without a group.
  double sum_ = 0, weights_ = 0;
};

// The places of a list's items. `ranks`: how many candidates are above each. Where the list's other
// items are no candidates, each of those above moves it down; else they are counted already, and of
// equal ones each moves the next.
std::vector<int64_t> PlacesOf(std::vector<int64_t> ranks, bool others_left_out);

}  // namespace coxswain::model
