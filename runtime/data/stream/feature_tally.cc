// Ids and texts: tallied, written, and merged from parts.
#include "runtime/data/stream/feature_tally.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/data_format.h"
#include "runtime/data/learned.h"
#include "runtime/data/spec_check.h"

namespace coxswain::data {
namespace {

using proto::FeatureSpec;

}  // namespace

FeatureTally::FeatureTally(const proto::DatasetSpec& spec, int index)
    : spec_(spec.features(index)),
      given_(FindLearned(spec, spec.features(index).name())),
      statistics_(FindStatistics(spec, spec.features(index).name())) {
  if (IsHistory(spec_)) return;
  has_indices_ = FormatOf(spec).HasIndices(spec_);
  counts_buckets_ = spec.label().feature() == spec_.name();
  const bool is_text = !FormatOf(spec).has_rows();
  lists_ = spec_.multi_valued() || is_text;
  min_count_ = is_text ? spec.text().min_count() : spec_.min_count();
  max_size_ = is_text ? spec.text().max_size() : spec_.max_size();
  keeps_places_ =
      LearnsVocabulary(spec_, spec) && given_ == nullptr && !lists_ && spec_.oov_buckets() == 0;
  if (given_ == nullptr && statistics_ != nullptr) largest_ = statistics_->numbers() - 1;
  numbers_ = given_ != nullptr            ? given_->numbers()
             : spec.libsvm_features() > 0 ? spec.libsvm_features()
                                          : -1;
}

void FeatureTally::AddId(int64_t id, Part part) {
  if (id < 0) return;
  const auto at = static_cast<size_t>(id);
  if (at >= counts_.size()) counts_.resize(at + 1);
  ++counts_[at][static_cast<size_t>(part)];
}

void FeatureTally::Add(const TableFeature& feature, absl::Span<const Part> parts,
                       const RowPlaces& places, const BlockPlace& place) {
  if (spec_.kind() == FeatureSpec::VECTOR || IsHistory(spec_)) return;
  if (spec_.kind() == FeatureSpec::NUMERIC) {
    for (size_t row = 0; row < parts.size() && statistics_ == nullptr; ++row) {
      if (parts[row] == Part::kTraining) numbers_tally_.Add(feature.numbers[row]);
    }
    return;
  }
  if (has_indices_) {
    for (size_t row = 0; row < parts.size(); ++row) {
      if (parts[row] != Part::kTraining) continue;
      for (int64_t i = feature.lists.offsets[row]; i < feature.lists.offsets[row + 1]; ++i) {
        largest_ = std::max(largest_, feature.lists.ids[static_cast<size_t>(i)]);
      }
    }
    return;
  }
  const Vocabulary* const vocabulary = feature.vocabulary.get();
  if (vocabulary != nullptr && vocabulary->texts() == nullptr && !counts_buckets_) return;
  if (vocabulary != nullptr && vocabulary->unbounded()) return;
  for (size_t row = 0; row < parts.size(); ++row) {
    if (spec_.multi_valued()) {
      for (int64_t i = feature.lists.offsets[row]; i < feature.lists.offsets[row + 1]; ++i) {
        AddId(feature.lists.ids[static_cast<size_t>(i)], parts[row]);
      }
      continue;
    }
    const int64_t id = feature.ids[row];
    if (keeps_places_ && places_.empty()) places_.resize(static_cast<size_t>(feature.known));
    if (keeps_places_ && id >= static_cast<int64_t>(places_.size())) {
      places_.push_back(
          {place.file, place.lines_before + places.LineOf(static_cast<int64_t>(row))});
    }
    AddId(id, parts[row]);
  }
}

int64_t FeatureTally::bytes(const TableFeature& feature) const {
  return feature.texts.bytes() + static_cast<int64_t>(counts_.size() * sizeof(Counts)) +
         static_cast<int64_t>(places_.size() * 2 * sizeof(std::string));
}

void FeatureTally::CountsOf(const Vocabulary& vocabulary, absl::Span<const Counts> counts,
                            proto::IndexedFeature* indexed) const {
  const auto size = static_cast<size_t>(vocabulary.size());
  const size_t known = vocabulary.texts() == nullptr ? size : vocabulary.texts()->size();
  Counts unknown = {};
  for (size_t id = 0; id < std::min(size, counts.size()); ++id) {
    indexed->add_training_counts(counts[id][0]);
    for (size_t part = 0; part < 3 && id >= known; ++part) unknown[part] += counts[id][part];
  }
  if (lists_ || vocabulary.texts() == nullptr) return;
  indexed->mutable_unknown()->Add(unknown.begin(), unknown.end());
}

absl::Status FeatureTally::LearnTexts(const TableFeature& feature, const PathOf& path,
                                      proto::IndexedFeature* indexed) const {
  std::vector<int64_t> counts(static_cast<size_t>(feature.texts.size()), 0);
  for (size_t i = 0; i < counts_.size(); ++i) counts[i] = counts_[i][0];
  const LearnedVocabulary learned = LearnVocabulary(feature.texts, counts, min_count_, max_size_,
                                                    spec_.oov_buckets(), feature.known);
  const auto lost = std::find(learned.ids.begin(), learned.ids.end(), -1);
  if (!lists_ && lost != learned.ids.end()) {
    const auto text = static_cast<size_t>(lost - learned.ids.begin());
    const Place& place = places_[text];
    return LeftOutError(spec_, learned.ids, feature.texts.text(static_cast<int64_t>(text)),
                        counts[text], absl::StrCat(path(place.file), ":", place.line));
  }
  // What is counted by text becomes what is counted by id.
  const Vocabulary& vocabulary = *learned.vocabulary;
  const auto known = static_cast<int64_t>(vocabulary.texts()->size());
  std::vector<int64_t> by_id(static_cast<size_t>(vocabulary.size()), 0);
  Counts unknown = {};
  for (size_t text = 0; text < counts_.size(); ++text) {
    const int64_t id = learned.ids[text];
    if (id < 0) continue;
    by_id[static_cast<size_t>(id)] += counts_[text][0];
    for (size_t part = 0; part < 3 && id >= known; ++part) unknown[part] += counts_[text][part];
  }
  for (const std::string& text : *vocabulary.texts()) indexed->add_vocabulary(text);
  indexed->mutable_training_counts()->Add(by_id.begin(), by_id.end());
  if (!lists_) indexed->mutable_unknown()->Add(unknown.begin(), unknown.end());
  indexed->mutable_learned()->set_vocabulary_size(known);
  indexed->mutable_learned()->set_oov_buckets(spec_.oov_buckets());
  return absl::OkStatus();
}

absl::Status FeatureTally::FinishVocabulary(const TableFeature& feature, const PathOf& path,
                                            proto::IndexedFeature* indexed) const {
  proto::LearnedFeature* learned = indexed->mutable_learned();
  if (has_indices_) {
    learned->set_numbers(numbers_ >= 0 ? numbers_ : largest_ + 1);
    return absl::OkStatus();
  }
  if (feature.hashes != nullptr) {
    FinishNames(feature, indexed);
    return absl::OkStatus();
  }
  if (feature.vocabulary == nullptr) return LearnTexts(feature, path, indexed);
  const Vocabulary& vocabulary = *feature.vocabulary;
  if (vocabulary.unbounded()) return absl::OkStatus();
  if (const std::vector<std::string>* texts = vocabulary.texts()) {
    for (const std::string& text : *texts) indexed->add_vocabulary(text);
    learned->set_vocabulary_size(static_cast<int64_t>(texts->size()));
    learned->set_oov_buckets(vocabulary.size() - learned->vocabulary_size());
  } else {
    learned->set_hash_buckets(vocabulary.size());
  }
  CountsOf(vocabulary, counts_, indexed);
  return absl::OkStatus();
}

void FeatureTally::FinishNames(const TableFeature& feature, proto::IndexedFeature* indexed) const {
  std::vector<int64_t> counts(static_cast<size_t>(feature.texts.size()), 0);
  for (size_t i = 0; i < counts_.size(); ++i) counts[i] = counts_[i][0];
  for (const std::string& name : NamesOf(feature.texts, counts, feature.known)) {
    indexed->add_vocabulary(name);
  }
  const Vocabulary& hashes = *feature.hashes;
  if (!hashes.unbounded()) indexed->mutable_learned()->set_hash_buckets(hashes.size());
  if (!counts_buckets_) return;
  const std::vector<int64_t> ids = HashedIds(feature.texts, hashes);
  std::vector<Counts> by_bucket;
  for (size_t text = 0; text < counts_.size(); ++text) {
    if (counts_[text] == Counts{}) continue;
    const auto id = static_cast<size_t>(ids[text]);
    if (id >= by_bucket.size()) by_bucket.resize(id + 1);
    for (size_t part = 0; part < 3; ++part) by_bucket[id][part] += counts_[text][part];
  }
  CountsOf(hashes, by_bucket, indexed);
}

absl::Status FeatureTally::Finish(const TableFeature& feature, const PathOf& path,
                                  proto::IndexedFeature* indexed) const {
  proto::LearnedFeature* learned = indexed->mutable_learned();
  learned->set_name(spec_.name());
  learned->set_id(spec_.id());
  if (IsHistory(spec_)) return absl::OkStatus();
  if (spec_.kind() == FeatureSpec::CATEGORICAL) return FinishVocabulary(feature, path, indexed);
  const bool fixed =
      spec_.kind() == FeatureSpec::VECTOR || spec_.normalization() == FeatureSpec::DIVIDE;
  const NumericTransform transform =
      fixed && given_ == nullptr ? FixedTransform(spec_)
      : statistics_ != nullptr
          ? NumericTransform{spec_.normalization(), statistics_->shift(), statistics_->scale()}
          : numbers_tally_.Fit(spec_.normalization());
  learned->set_normalization(transform.kind);
  learned->set_shift(transform.shift);
  learned->set_scale(transform.scale);
  return absl::OkStatus();
}

void FeatureTally::TakePart(const TableFeature& feature, int64_t texts,
                            proto::PartFeature* part) const {
  part->set_largest(largest_);
  for (int64_t text = feature.known; text < texts; ++text) {
    part->add_texts(feature.texts.text(text));
    if (!keeps_places_) continue;
    const Place& place = places_[static_cast<size_t>(text)];
    part->add_files(place.file);
    part->add_lines(place.line);
  }
  for (size_t id = 0; id < counts_.size(); ++id) {
    if (counts_[id] == Counts{}) continue;
    part->add_ids(static_cast<int64_t>(id));
    part->add_training(counts_[id][0]);
    part->add_validation(counts_[id][1]);
    part->add_test(counts_[id][2]);
  }
}

absl::Status FeatureTally::Merge(const proto::PartFeature& part, int32_t first, int32_t end,
                                 TableFeature* feature) {
  const int texts = part.texts_size(), ids = part.ids_size();
  const bool learns = feature->vocabulary == nullptr;
  const int64_t known = feature->known;
  const int64_t most = learns ? known + texts : feature->vocabulary->size();
  bool fits = (learns || texts == 0) && part.training_size() == ids &&
              part.validation_size() == ids && part.test_size() == ids &&
              part.files_size() == (keeps_places_ ? texts : 0) &&
              part.lines_size() == part.files_size();
  for (int i = 0; i < ids; ++i) fits = fits && part.ids(i) >= 0 && part.ids(i) < most;
  for (const int32_t file : part.files()) fits = fits && file >= 0 && file < end - first;
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrCat("feature ", spec_.name(), ": the part is of another data set"));
  }
  largest_ = std::max(largest_, part.largest());
  if (keeps_places_ && texts > 0 && places_.empty()) places_.resize(static_cast<size_t>(known));
  std::vector<int64_t> here;
  for (int text = 0; text < texts; ++text) {
    here.push_back(feature->texts.Intern(part.texts(text)));
    if (here.back() < 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("feature ", spec_.name(), ": wanted at most 2^31 - 1 values, found more"));
    }
    if (!keeps_places_ || here.back() < static_cast<int64_t>(places_.size())) continue;
    places_.push_back({first + part.files(text), part.lines(text)});
  }
  for (int i = 0; i < ids; ++i) {
    const int64_t id = part.ids(i);
    const auto at = static_cast<size_t>(!learns || id < known ? id : here[size_t(id - known)]);
    if (at >= counts_.size()) counts_.resize(at + 1);
    counts_[at][0] += part.training(i);
    counts_[at][1] += part.validation(i);
    counts_[at][2] += part.test(i);
  }
  return absl::OkStatus();
}

}  // namespace coxswain::data
