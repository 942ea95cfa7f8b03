// Where a split by a column cuts its rows, found by counting values: first roughly, then, where
// there are too many different values to count each, again within what has the cut.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "protos/dataset.pb.h"
#include "protos/dataset_index.pb.h"
#include "runtime/data/stream/value_counts.h"

namespace coxswain::data {

// What of a checked spec is read to find the cuts: the column; or, where there may be rows that a
// model was trained on, all by which it knows them.
proto::DatasetSpec SpecOfCuts(const proto::DatasetSpec& spec);

// Thread model: one thread.
class CutSearch {
 public:
  // `spec`: of SpecOfCuts.
  explicit CutSearch(const proto::DatasetSpec& spec);

  // What is to be counted next, of all rows; nothing when the cuts are found. Pointers stay good.
  const std::vector<proto::ValueRange>& ranges() const { return ranges_; }
  // What was counted, parallel to ranges(). `kept_rows`: so many rows are those that a model was
  // trained on; the same every time. Errors: FailedPrecondition for counts of other rows than
  // before.
  absl::Status Take(absl::Span<ValueCounts> counts, int64_t kept_rows);

  proto::TimeCuts cuts() const;

 private:
  struct Sought {
    bool exists = false;  // some row is behind it
    proto::ValueRange in;
    int64_t rank = 0;  // of the first row behind it, among those in the range
  };
  // The validation and the test part's.
  using Pair = std::array<Sought, 2>;

  void Place(absl::Span<const ValueCounts::Bin> bins, int64_t first_rows, Pair* pair) const;
  static absl::Status Narrow(ValueCounts* counts, Sought* sought);
  void NextRanges();

  const proto::SplitSpec split_;
  bool begun_ = false;
  int64_t kept_rows_ = 0;
  Pair kept_, all_;
  std::vector<Sought*> open_;  // parallel to ranges_, but for the first ones
  std::vector<proto::ValueRange> ranges_;
};

}  // namespace coxswain::data
