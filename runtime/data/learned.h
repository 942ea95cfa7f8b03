// What a model knows of the features of its data set: DatasetSpec.learned.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "protos/dataset.pb.h"
#include "runtime/data/vocabulary.h"

namespace coxswain::data {

// Null when it is to be learned.
const proto::LearnedFeature* FindLearned(const proto::DatasetSpec& spec, const std::string& name);

// Whether what is learned, if anything is, fits the features of a spec with its defaults filled in.
// Errors: InvalidArgument naming the feature that the model does not know, or knew otherwise.
absl::Status CheckLearned(const proto::DatasetSpec& spec);

// Reads its file. Errors: those of ReadVocabularyLines.
absl::StatusOr<std::unique_ptr<Vocabulary>> LoadVocabulary(const proto::LearnedFeature& learned);

}  // namespace coxswain::data
