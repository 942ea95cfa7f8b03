// Learning from the training part of a data set: vocabularies and statistics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "protos/dataset.pb.h"
#include "runtime/data/table.h"

namespace coxswain::data {

// How a number of the file is transformed for a batch.
struct NumericTransform {
  proto::FeatureSpec::Normalization kind = proto::FeatureSpec::NONE;
  double shift = 0;  // mean, or smallest value
  double scale = 1;  // standard deviation (of the population), or range; 1 for a constant column

  float Apply(double value) const;
  // Transforms each value; `out` must have room for them.
  void ApplyAll(absl::Span<const double> values, float* out) const;
};

// The transform of a feature that does not depend on the data: any normalization except STANDARD
// and MIN_MAX.
NumericTransform FixedTransform(const proto::FeatureSpec& feature);

NumericTransform FitTransform(proto::FeatureSpec::Normalization kind,
                              absl::Span<const double> values,
                              absl::Span<const uint32_t> training_rows);

// Learns the vocabulary of feature `index` of the table, which has none yet, from the training rows
// alone, and converts the ids of all rows to those of the vocabulary. Other values go to
// oov_buckets; without these they are left out of a multi-valued feature. Errors: InvalidArgument
// for such a value in a feature of one value, naming a row that has it.
absl::Status LearnIds(const proto::FeatureSpec& spec, absl::Span<const uint32_t> training_rows,
                      size_t index, Table* table);

// The values of a feature that keeps names which occur in the training part, `counts` times each by
// number: in decreasing order of counts there, then by first appearance, behind those that a model
// has. The same as a vocabulary that is learned without limits.
std::vector<std::string> NamesOf(const Interner& texts, absl::Span<const int64_t> counts,
                                 int64_t known);

// The ids that hashes give to texts, by number.
std::vector<int64_t> HashedIds(const Interner& texts, const Vocabulary& hashes);

// As LearnIds, of feature that keeps names: its ids become those of its hashes, whatever occurs.
// Returns the names.
std::vector<std::string> TakeNames(const proto::FeatureSpec& spec,
                                   absl::Span<const uint32_t> training_rows, TableFeature* feature);

// The error for a feature of one value when a learned vocabulary leaves out values: `ids` are -1
// for these; `text` is one of them, which occurs in `count` training rows, and first, among all
// rows, at `place`.
absl::Status LeftOutError(const proto::FeatureSpec& spec, const std::vector<int64_t>& ids,
                          absl::string_view text, int64_t count, absl::string_view place);

// The same for libsvm's indices: ids are 0..numbers-1. `numbers` < 0: up to the largest index of
// the training rows, but at least `least`. Larger indices in other rows are left out. `first`: the
// index of id 0.
void LearnNumbers(int64_t numbers, int64_t first, absl::Span<const uint32_t> training_rows,
                  TableFeature* feature, int64_t least = 0);

}  // namespace coxswain::data
