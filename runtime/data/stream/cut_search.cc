#include "runtime/data/stream/cut_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/base/status.h"
#include "runtime/data/stream/split_spec.h"

namespace coxswain::data {
namespace {

proto::ValueRange AllValues(int64_t first_rows) {
  proto::ValueRange range;
  range.set_high(std::numeric_limits<uint64_t>::max());
  range.set_first_rows(first_rows);
  return range;
}

void Put(double value, int64_t rows, proto::SplitCut* cut) {
  cut->set_value(value);
  cut->set_rows(rows);
  cut->set_row(-1);
}

}  // namespace

proto::DatasetSpec SpecOfCuts(const proto::DatasetSpec& spec) {
  bool all_columns = false;
  proto::DatasetSpec less = SpecOfParts(spec, &all_columns);
  if (all_columns) return less;
  less.mutable_split()->clear_holdout_per();
  less.mutable_split()->clear_holdout_validation();
  less.mutable_split()->clear_holdout_last();
  return less;
}

CutSearch::CutSearch(const proto::DatasetSpec& spec) : split_(spec.split()) {
  ranges_.push_back(AllValues(0));
  if (spec.trained().rows() > 0) ranges_.push_back(AllValues(spec.trained().rows()));
}

void CutSearch::Place(absl::Span<const ValueCounts::Bin> bins, int64_t first_rows,
                      Pair* pair) const {
  int64_t rows = 0;
  for (const ValueCounts::Bin& bin : bins) rows += bin.rows;
  // As SplitByValue has it.
  const auto share = [rows](double fraction) {
    return static_cast<int64_t>(std::llround(fraction * static_cast<double>(rows)));
  };
  const int64_t test = rows - share(split_.test_fraction());
  const int64_t validation = test - std::min(share(split_.validation_fraction()), test);
  Sought& of_validation = (*pair)[0];
  of_validation.exists = validation < test;
  of_validation.rank = validation;
  of_validation.in = AllValues(first_rows);
  Sought& of_test = (*pair)[1];
  of_test.exists = test < rows;
  of_test.rank = test;
  of_test.in = AllValues(first_rows);
}

absl::Status CutSearch::Narrow(ValueCounts* counts, Sought* sought) {
  for (const ValueCounts::Bin& bin : counts->bins()) {
    if (sought->rank >= bin.rows) {
      sought->rank -= bin.rows;
      continue;
    }
    const int shift = counts->shift();
    sought->in.set_low(bin.bits << shift);
    sought->in.set_high(sought->in.low() | ((uint64_t{1} << shift) - 1));
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      "data set: split.by: the values of its column are others than when they were read before");
}

void CutSearch::NextRanges() {
  ranges_.clear();
  open_.clear();
  for (Pair* pair : {&kept_, &all_}) {
    for (Sought& sought : *pair) {
      if (!sought.exists || sought.in.low() == sought.in.high()) continue;
      open_.push_back(&sought);
      ranges_.push_back(sought.in);
    }
  }
}

absl::Status CutSearch::Take(absl::Span<ValueCounts> counts, int64_t kept_rows) {
  if (!begun_) {
    begun_ = true;
    kept_rows_ = kept_rows;
    Place(counts[0].bins(), 0, &all_);
    if (kept_rows > 0) Place(counts[1].bins(), kept_rows, &kept_);
    for (size_t i = 0; i < 2; ++i) {
      if (all_[i].exists) RETURN_IF_ERROR(Narrow(&counts[0], &all_[i]));
      if (kept_[i].exists) RETURN_IF_ERROR(Narrow(&counts[1], &kept_[i]));
    }
  } else {
    for (size_t i = 0; i < open_.size(); ++i) RETURN_IF_ERROR(Narrow(&counts[i], open_[i]));
  }
  NextRanges();
  return absl::OkStatus();
}

proto::TimeCuts CutSearch::cuts() const {
  proto::TimeCuts cuts;
  const auto put = [](const Pair& pair, proto::SplitCuts* to) {
    if (pair[0].exists) {
      Put(ValueOfBits(pair[0].in.low()), pair[0].rank, to->mutable_validation());
    }
    if (pair[1].exists) Put(ValueOfBits(pair[1].in.low()), pair[1].rank, to->mutable_test());
  };
  cuts.set_kept_rows(kept_rows_);
  if (kept_rows_ > 0) put(kept_, cuts.mutable_kept());
  put(all_, cuts.mutable_all());
  return cuts;
}

}  // namespace coxswain::data
