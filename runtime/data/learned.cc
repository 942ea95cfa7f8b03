#include "runtime/data/learned.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/data_format.h"
#include "runtime/data/names.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/vocabulary_file.h"

namespace coxswain::data {
namespace {

using proto::DatasetSpec;
using proto::FeatureSpec;
using proto::LearnedFeature;

const LearnedFeature* FindIn(const google::protobuf::RepeatedPtrField<LearnedFeature>& features,
                             const std::string& name) {
  for (const LearnedFeature& feature : features) {
    if (feature.name() == name) return &feature;
  }
  return nullptr;
}

// How the values of a feature become ids or numbers, for messages.
std::string HowOf(const FeatureSpec& feature, const DatasetSpec& spec) {
  if (feature.kind() != FeatureSpec::CATEGORICAL) return "numbers";
  if (FormatOf(spec).HasIndices(feature)) return "libsvm's indices";
  if (!feature.id().empty()) return absl::StrCat("the id ", feature.id());
  return feature.hash_buckets() > 0 ? "hash buckets" : "a vocabulary";
}

std::string HowOf(const LearnedFeature& learned) {
  if (learned.scale() != 0) return "numbers";
  if (learned.numbers() > 0) return "libsvm's indices";
  if (learned.hash_buckets() > 0) return "hash buckets";
  return learned.id().empty() ? "a vocabulary" : absl::StrCat("the id ", learned.id());
}

}  // namespace

const LearnedFeature* FindLearned(const DatasetSpec& spec, const std::string& name) {
  return FindIn(spec.learned(), name);
}

const LearnedFeature* FindKnown(const DatasetSpec& spec, const std::string& name) {
  return FindIn(spec.known(), name);
}

const LearnedFeature* FindStatistics(const DatasetSpec& spec, const std::string& name) {
  const LearnedFeature* const learned = FindLearned(spec, name);
  return learned != nullptr ? learned : FindKnown(spec, name);
}

absl::Status CheckLearned(const DatasetSpec& spec) {
  if (spec.learned().empty()) return absl::OkStatus();
  for (const FeatureSpec& feature : spec.features()) {
    if (IsHistory(feature)) continue;
    const auto wrong = [&feature](const auto&... what) {
      return absl::InvalidArgumentError(
          absl::StrCat("data set: feature ", Quoted(feature.name()), ": ", what...));
    };
    const LearnedFeature* learned = FindLearned(spec, feature.name());
    if (learned == nullptr) return wrong("the model was trained without it");
    const std::string wanted = HowOf(*learned), found = HowOf(feature, spec);
    if (wanted != found || learned->id() != feature.id()) {
      return wrong("the model was trained with ", wanted, ", the job says ", found);
    }
    if (learned->normalization() != feature.normalization()) {
      return wrong("the model was trained with the normalization ",
                   FeatureSpec::Normalization_Name(learned->normalization()), ", the job says ",
                   FeatureSpec::Normalization_Name(feature.normalization()));
    }
    if (learned->hash_buckets() != feature.hash_buckets()) {
      return wrong("the model was trained with ", learned->hash_buckets(),
                   " hash_buckets, the job says ", feature.hash_buckets());
    }
    if (learned->numbers() > 0 && spec.libsvm_features() > 0 &&
        learned->numbers() != spec.libsvm_features()) {
      return wrong("the model was trained with ", learned->numbers(), " indices, the job says ",
                   spec.libsvm_features());
    }
    const bool no_file = wanted == "a vocabulary" && learned->vocabulary_file().empty();
    const bool no_counts = !FormatOf(spec).has_rows() && learned->counts_file().empty();
    if (no_file || no_counts || !std::isfinite(learned->shift()) ||
        !std::isfinite(learned->scale()) || learned->vocabulary_size() < 0 ||
        learned->oov_buckets() < 0 ||
        learned->vocabulary_size() > std::numeric_limits<int32_t>::max()) {
      return wrong("what the model knows of it is damaged");
    }
  }
  return absl::OkStatus();
}

std::unique_ptr<Vocabulary> UnlistedVocabulary(const FeatureSpec& feature) {
  if (feature.id() == "raw") return Vocabulary::OfIntegers();
  if (!feature.id().empty()) return Vocabulary::OfHashes();
  return feature.hash_buckets() > 0 ? Vocabulary::OfBuckets(feature.hash_buckets()) : nullptr;
}

bool KeepsNames(const DatasetSpec& spec, const FeatureSpec& feature) {
  return feature.keep_names() && FindLearned(spec, feature.name()) == nullptr;
}

absl::StatusOr<std::unique_ptr<Vocabulary>> LoadVocabulary(const LearnedFeature& learned) {
  ASSIGN_OR_RETURN(std::vector<std::string> texts,
                   ReadVocabularyLines(learned.vocabulary_file(), learned.vocabulary_hash(),
                                       learned.vocabulary_size()));
  return Vocabulary::OfTexts(std::move(texts), learned.oov_buckets());
}

absl::StatusOr<std::vector<std::string>> KnownValues(const DatasetSpec& spec,
                                                     const std::string& name) {
  const LearnedFeature* const known = FindKnown(spec, name);
  if (known != nullptr && !known->names_file().empty()) {
    return ReadNameLines(known->names_file(), known->names_hash());
  }
  if (known == nullptr || known->vocabulary_file().empty()) return std::vector<std::string>();
  return ReadVocabularyLines(known->vocabulary_file(), known->vocabulary_hash(),
                             known->vocabulary_size());
}

}  // namespace coxswain::data
