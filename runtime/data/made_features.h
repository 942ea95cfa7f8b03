// Features that are made of what columns hold: the range that a number is in, a part of a time, and
// the combination of several features' values.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "protos/dataset.pb.h"
#include "runtime/data/sinks.h"

namespace coxswain::data {

bool IsCrossed(const proto::FeatureSpec& feature);
bool IsBucketized(const proto::FeatureSpec& feature);
// It is bucketized or a part of a time: the job says what its values are, and not the rows.
bool HasFixedValues(const proto::FeatureSpec& feature);

// The values of such a feature by id; of a bucketized one "(-inf, 18)", "[18, 25)", "[25, inf)",
// and "" for a missing number.
std::vector<std::string> FixedValuesOf(const proto::FeatureSpec& feature);

// Of the features that are such. Errors: InvalidArgument.
absl::Status CheckMadeFeatures(const proto::DatasetSpec& spec);

// Gives `sink` the fixed value that each field stands for: the range of a number, the part of a
// time.
std::unique_ptr<FieldSink> NewFixedValueSink(const proto::FeatureSpec& feature,
                                             std::unique_ptr<FieldSink> sink);

// The sinks of the columns that a crossed feature is made of. When each of them has a row's field,
// `sink` gets the combination, "Private & Bachelors" (a `&` in a value is doubled). Columns may be
// read row by row or one after the other.
std::vector<std::pair<std::string, std::unique_ptr<FieldSink>>> NewCrossedSinks(
    const proto::DatasetSpec& spec, const proto::FeatureSpec& feature,
    std::unique_ptr<FieldSink> sink);

}  // namespace coxswain::data
