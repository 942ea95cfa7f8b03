// What a data set learns from its training part: vocabularies and statistics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "protos/dataset.pb.h"
#include "runtime/data/table.h"

namespace coxswain {

// How a number of the file becomes one of the batch.
struct NumericTransform {
  proto::FeatureSpec::Normalization kind = proto::FeatureSpec::NONE;
  double shift = 0;  // mean, or smallest value
  double scale = 1;  // standard deviation (of the population), or range; 1 for a constant column

  float Apply(double value) const;
};

NumericTransform FitTransform(proto::FeatureSpec::Normalization kind,
                              absl::Span<const double> values,
                              absl::Span<const uint32_t> training_rows);

// Learns the vocabulary of a feature that has none yet and turns its ids into those of the
// vocabulary. Counts are of the training rows. Without min_count (> 1) and max_size every value of
// any row gets an id, so that a held-out name has one; with them the others fall to oov_buckets,
// and without these they are left out of a multi-valued feature. Errors: InvalidArgument when such
// a value is all that a feature of one value has.
absl::Status LearnIds(const proto::FeatureSpec& spec, absl::Span<const uint32_t> training_rows,
                      TableFeature* feature);

}  // namespace coxswain
