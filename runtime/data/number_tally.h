// What `normalize` needs to know of the numbers of a column, added up one after the other.
#pragma once

#include <cstdint>

#include "protos/dataset.pb.h"
#include "protos/dataset_index.pb.h"
#include "runtime/data/analysis.h"

namespace coxswain::data {

// The same numbers in the same order have the same transform to the last bit, whether their rows
// are in memory or streamed. Thread model: a value.
class NumberTally {
 public:
  void Add(double value);
  // Of a constant column, and of no number, the scale is 1.
  NumericTransform Fit(proto::FeatureSpec::Normalization kind) const;
  // For another process to go on with, without a change in any bit. A state of other numbers is
  // taken as none.
  void Save(proto::NumberState* state) const;
  void Continue(const proto::NumberState& state);

 private:
  int64_t count_ = 0;
  double sum_ = 0, low_ = 0, high_ = 0;
  // About the first value, in more digits: sums of squares lose everything for time stamps, and
  // what a mean is rounded by would be the deviation of a constant.
  double first_ = 0;
  long double offsets_ = 0, squares_ = 0;
};

}  // namespace coxswain::data
