// The format of Criteo's click logs (the Kaggle challenge of 2014 and the terabyte log): lines of
// 40 fields with tabs between them and no header, a label, 13 integers and 26 hexadecimal words.
// Every field but the label may be empty.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "protos/dataset.pb.h"
#include "runtime/data/sinks.h"

namespace coxswain::data {

inline constexpr char kCriteoFormat[] = "criteo";
inline constexpr char kCriteoLabel[] = "label";
inline constexpr int kCriteoNumbers = 13;
inline constexpr int kCriteoWords = 26;
// Ids of each word's feature, where nothing else is said.
inline constexpr int64_t kCriteoBuckets = 100'000;

// "label", "I1" .. "I13", "C1" .. "C26".
const std::vector<std::string>& CriteoColumns();

// Adds a feature for each of I1 .. I13 (numeric, log1p) and C1 .. C26 (categorical, hashed into so
// many ids; 0: 64-bit hashes, for hash tables). The names are those of the columns.
void AddCriteoFeatures(int64_t hash_buckets, proto::DatasetSpec* spec);

// A sink that first makes sure that the field is what the format has in that column.
std::unique_ptr<FieldSink> CheckedCriteoSink(const std::string& column,
                                             std::unique_ptr<FieldSink> sink);

}  // namespace coxswain::data
