// A DatasetSpec checked before a file is opened, and its defaults filled in.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "protos/dataset.pb.h"

namespace coxswain {

// The columns that a libsvm file has.
inline constexpr char kLibsvmLabel[] = "label";
inline constexpr char kLibsvmFeatures[] = "features";
// Names of batch columns that no feature may take.
inline constexpr char kLabelColumn[] = "label";
inline constexpr char kKnownColumn[] = "known";
inline constexpr char kExampleIdColumn[] = "example_id";  // when the spec wants it

// The same spec with
// - the separator ",", feature names and columns (each stands in for the other), value separators;
// - for libsvm the feature "features", when no feature takes that column, and the label column
//   "label" when the label is not a feature;
// - for a text the feature "word", and a window of 5 where it has none;
// - holdout_min at least 2 when holdout_per is set, so that every group keeps a training row.
// Errors: InvalidArgument for what contradicts itself: the message names the feature and the field.
absl::StatusOr<proto::DatasetSpec> CheckSpec(proto::DatasetSpec spec);

// The vocabulary of such a feature comes from the files' own values.
bool LearnsVocabulary(const proto::FeatureSpec& feature, const std::string& format);
bool IsHistory(const proto::FeatureSpec& feature);

}  // namespace coxswain
