// Features that are made of what columns hold: the range that a number is in, and the combination
// of several features' values.
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

// The values of a bucketized feature by id: "(-inf, 18)", "[18, 25)", "[25, inf)", and "" for a
// missing number.
std::vector<std::string> RangesOf(const proto::FeatureSpec& feature);

// Of the features that are such. Errors: InvalidArgument.
absl::Status CheckMadeFeatures(const proto::DatasetSpec& spec);

// Gives `sink` the range of each number.
std::unique_ptr<FieldSink> NewRangeSink(const proto::FeatureSpec& feature,
                                        std::unique_ptr<FieldSink> sink);

// The sinks of the columns that a crossed feature is made of. When each of them has a row's field,
// `sink` gets the combination, "Private & Bachelors" (a `&` in a value is doubled). Columns may be
// read row by row or one after the other.
std::vector<std::pair<std::string, std::unique_ptr<FieldSink>>> NewCrossedSinks(
    const proto::DatasetSpec& spec, const proto::FeatureSpec& feature,
    std::unique_ptr<FieldSink> sink);

}  // namespace coxswain::data
