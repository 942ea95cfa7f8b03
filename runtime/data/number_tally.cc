#include "runtime/data/number_tally.h"

#include <algorithm>
#include <cmath>

namespace coxswain::data {
namespace {

using proto::FeatureSpec;

// Sums in more digits than a double has, as two of them.
void Put(long double sum, google::protobuf::RepeatedField<double>* numbers) {
  const auto high = static_cast<double>(sum);
  numbers->Add(high);
  numbers->Add(static_cast<double>(sum - high));
}

long double Sum(const google::protobuf::RepeatedField<double>& numbers) {
  long double sum = 0;
  for (const double number : numbers) sum += number;
  return sum;
}

}  // namespace

void NumberTally::Save(proto::NumberState* state) const {
  state->set_count(count_);
  state->set_sum(sum_);
  state->set_low(low_);
  state->set_high(high_);
  state->set_first(first_);
  Put(offsets_, state->mutable_offsets());
  Put(squares_, state->mutable_squares());
}

void NumberTally::Continue(const proto::NumberState& state) {
  count_ = state.count();
  sum_ = state.sum();
  low_ = state.low();
  high_ = state.high();
  first_ = state.first();
  offsets_ = Sum(state.offsets());
  squares_ = Sum(state.squares());
}

void NumberTally::Add(double value) {
  if (count_++ == 0) {
    first_ = low_ = high_ = value;
  }
  sum_ += value;
  low_ = std::min(low_, value);
  high_ = std::max(high_, value);
  const long double offset = static_cast<long double>(value) - first_;
  offsets_ += offset;
  squares_ += offset * offset;
}

NumericTransform NumberTally::Fit(FeatureSpec::Normalization kind) const {
  NumericTransform transform;
  transform.kind = kind;
  if (count_ == 0) return transform;
  const auto count = static_cast<double>(count_);
  if (kind == FeatureSpec::STANDARD) {
    transform.shift = sum_ / count;
    const long double mean = offsets_ / count;
    transform.scale =
        std::sqrt(static_cast<double>(std::max(squares_ / count - mean * mean, 0.0L)));
  } else if (kind == FeatureSpec::MIN_MAX) {
    transform.shift = low_;
    transform.scale = high_ - low_;
  }
  if (!(transform.scale > 0)) transform.scale = 1;
  return transform;
}

}  // namespace coxswain::data
