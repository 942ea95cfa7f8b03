// What a data set learns from its training part: vocabularies and statistics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "protos/dataset.pb.h"
#include "runtime/data/table.h"

namespace coxswain::data {

// How a number of the file becomes one of the batch.
struct NumericTransform {
  proto::FeatureSpec::Normalization kind = proto::FeatureSpec::NONE;
  double shift = 0;  // mean, or smallest value
  double scale = 1;  // standard deviation (of the population), or range; 1 for a constant column

  float Apply(double value) const;
  // Of each; `out` has room for as many.
  void ApplyAll(absl::Span<const double> values, float* out) const;
};

// Of a feature that needs none of the data: any but STANDARD and MIN_MAX.
NumericTransform FixedTransform(const proto::FeatureSpec& feature);

NumericTransform FitTransform(proto::FeatureSpec::Normalization kind,
                              absl::Span<const double> values,
                              absl::Span<const uint32_t> training_rows);

// Learns the vocabulary of feature `index` of the table, which has none yet, from the training rows
// alone, and turns the ids of all rows into those of the vocabulary. Other values fall to
// oov_buckets; without these they are left out of a multi-valued feature. Errors: InvalidArgument
// when such a value is all that a feature of one value has, with a row where it stands.
absl::Status LearnIds(const proto::FeatureSpec& spec, absl::Span<const uint32_t> training_rows,
                      size_t index, Table* table);

// The error of a feature of one value when a learned vocabulary leaves out some: `ids` are -1 for
// these; `text` is one of them, in `count` training rows and, first of all rows, at `place`.
absl::Status LeftOutError(const proto::FeatureSpec& spec, const std::vector<int64_t>& ids,
                          absl::string_view text, int64_t count, absl::string_view place);

// The same for libsvm's indices: ids are 0..numbers-1. `numbers` < 0: to the largest of the
// training rows, or `least` where that is more. Those of other rows that are larger are left out.
// `first`: the index of id 0.
void LearnNumbers(int64_t numbers, int64_t first, absl::Span<const uint32_t> training_rows,
                  TableFeature* feature, int64_t least = 0);

}  // namespace coxswain::data
