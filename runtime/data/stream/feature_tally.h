// What a pass over the rows of a data set adds up of one feature, so that no row is kept: the
// statistics and the vocabulary that Dataset learns of columns in memory.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "coxswain/dataset.h"
#include "protos/dataset.pb.h"
#include "protos/dataset_index.pb.h"
#include "runtime/data/analysis.h"
#include "runtime/data/row_places.h"
#include "runtime/data/table.h"

namespace coxswain::data {

// The same numbers as FitTransform has of all values at once: the mean and the range to the last
// bit, the deviation but for rounding. Thread model: a value.
class NumberTally {
 public:
  void Add(double value);
  NumericTransform Fit(proto::FeatureSpec::Normalization kind) const;

 private:
  int64_t count_ = 0;
  double sum_ = 0, low_ = 0, high_ = 0;
  // About the first value, in more digits: sums of squares lose everything for time stamps.
  double first_ = 0;
  long double offsets_ = 0, squares_ = 0;
};

// Thread model: one thread.
class FeatureTally {
 public:
  // `feature` is feature `index` of the spec; of a numeric or categorical one, not of a history.
  FeatureTally(const proto::DatasetSpec& spec, int index);

  // The rows of a block that was read into `feature`, in the order of the data set; `parts` has the
  // part of each.
  void Add(const TableFeature& feature, absl::Span<const Part> parts, const RowPlaces& places);
  // Bytes of what is kept.
  int64_t bytes(const TableFeature& feature) const;
  // Errors: InvalidArgument as LearnIds has it, when a value is left without an id.
  absl::Status Finish(const TableFeature& feature, proto::IndexedFeature* indexed) const;

 private:
  using Counts = std::array<int64_t, 3>;  // by part

  void AddId(int64_t id, Part part);
  absl::Status FinishVocabulary(const TableFeature& feature, proto::IndexedFeature* indexed) const;
  absl::Status LearnTexts(const TableFeature& feature, proto::IndexedFeature* indexed) const;
  void CountsOf(const Vocabulary& vocabulary, proto::IndexedFeature* indexed) const;

  const proto::FeatureSpec spec_;
  const proto::LearnedFeature* const given_;       // null: it is to be learned
  const proto::LearnedFeature* const statistics_;  // of a number: those that it keeps; null: none
  bool has_indices_ = false;
  bool counts_buckets_ = false;  // the model wants to know how often each occurs
  bool keeps_places_ = false;
  int64_t numbers_ =
      -1;  // libsvm: as the spec has it; -1: to the largest index of the training part
  int64_t largest_ = -1;
  NumberTally numbers_tally_;
  std::vector<Counts> counts_;       // by id, or by text while the vocabulary is to be learned
  std::vector<std::string> places_;  // by text: where it came first
};

}  // namespace coxswain::data
