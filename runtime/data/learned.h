// What a model knows of the features of its data set: DatasetSpec.learned, where nothing is learned
// anew, and DatasetSpec.known, where training goes on from the model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/dataset.pb.h"
#include "runtime/data/vocabulary.h"

namespace coxswain::data {

// Null when it is to be learned.
const proto::LearnedFeature* FindLearned(const proto::DatasetSpec& spec, const std::string& name);

// Of the model that training goes on from. Null when there is none, or it has no such feature.
const proto::LearnedFeature* FindKnown(const proto::DatasetSpec& spec, const std::string& name);
// Of a numeric feature, what either says.
const proto::LearnedFeature* FindStatistics(const proto::DatasetSpec& spec,
                                            const std::string& name);

// Whether what is learned, if anything is, fits the features of a spec with its defaults filled in.
// Errors: InvalidArgument naming the feature that the model does not know, or knew otherwise.
absl::Status CheckLearned(const proto::DatasetSpec& spec);

// The ids of a feature that lists no values: hash buckets, 64-bit hashes, or integers as they are.
// Null for any other feature.
std::unique_ptr<Vocabulary> UnlistedVocabulary(const proto::FeatureSpec& feature);

// Whether the values of the training part are collected (FeatureSpec.keep_names). With a model's
// DatasetSpec.learned nothing is.
bool KeepsNames(const proto::DatasetSpec& spec, const proto::FeatureSpec& feature);

// Reads its file. Errors: those of ReadVocabularyLines.
absl::StatusOr<std::unique_ptr<Vocabulary>> LoadVocabulary(const proto::LearnedFeature& learned);

// The known values of a feature whose vocabulary is to be learned, in the order of their ids; or,
// of one that keeps names, those that the model has. None where nothing is known. Errors: those of
// ReadVocabularyLines.
absl::StatusOr<std::vector<std::string>> KnownValues(const proto::DatasetSpec& spec,
                                                     const std::string& name);

}  // namespace coxswain::data
