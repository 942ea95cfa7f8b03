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

// Reads its file. Errors: those of ReadVocabularyLines.
absl::StatusOr<std::unique_ptr<Vocabulary>> LoadVocabulary(const proto::LearnedFeature& learned);

// The known values of a feature whose vocabulary is to be learned, in the order of their ids; none
// where nothing is known. Errors: those of ReadVocabularyLines.
absl::StatusOr<std::vector<std::string>> KnownValues(const proto::DatasetSpec& spec,
                                                     const std::string& name);

}  // namespace coxswain::data
