#include "runtime/data/dataset_keys.h"

#include <algorithm>

#include "runtime/data/data_format.h"
#include "runtime/data/hash.h"
#include "runtime/data/learned.h"
#include "runtime/data/time_split.h"

namespace coxswain::data {

using proto::DatasetSpec;
using proto::FeatureSpec;

uint64_t HashSpec(DatasetSpec spec) {
  const int test_paths = spec.split().test_paths_size();
  spec.clear_paths();
  spec.clear_stream();
  spec.clear_known_items();
  spec.mutable_split()->clear_test_paths();
  if (test_paths > 0) spec.mutable_split()->add_test_paths("yes");
  // Data that has more of them is an error: which rows there are does not depend on it.
  spec.clear_max_bad_rows();
  // It takes rows out of batches that were read.
  if (spec.has_label()) spec.mutable_label()->clear_keep_negatives();
  spec.clear_follow_end();  // which files are read is known by now
  for (proto::JoinSpec& join : *spec.mutable_joins()) join.clear_path();
  for (FeatureSpec& feature : *spec.mutable_features()) {
    feature.clear_dim();
    feature.clear_combiner();
    feature.clear_keep_names();
    if (!feature.vocabulary_file().empty()) feature.set_vocabulary_file("yes");
  }
  // What is known of hashed values is their names.
  auto* const known = spec.mutable_known();
  known->erase(
      std::remove_if(known->begin(), known->end(),
                     [](const proto::LearnedFeature& f) { return !f.names_file().empty(); }),
      known->end());
  for (auto* features : {spec.mutable_learned(), spec.mutable_known()}) {
    for (proto::LearnedFeature& learned : *features) {
      learned.clear_vocabulary_file();
      learned.clear_counts_file();
      learned.clear_names_file();
      learned.clear_names_hash();
    }
  }
  spec.DiscardUnknownFields();
  return HashText(spec.SerializeAsString());
}

uint64_t HashParts(const DatasetSpec& spec, SinceTraining since) {
  if (!spec.learned().empty() || !spec.has_trained()) return HashSpec(spec);
  const bool is_text = !FormatOf(spec).has_rows();
  DatasetSpec less = spec;
  less.clear_trained();
  const uint64_t hash = HashSpec(std::move(less));
  const bool other = since == SinceTraining::kGrown && PartsDependOnOthers(spec.split(), is_text);
  return other ? HashPair(hash, static_cast<uint64_t>(spec.trained().rows())) : hash;
}

bool PartsDependOnOthers(const proto::SplitSpec& split, bool is_text) {
  if (is_text) return split.validation_fraction() > 0;
  return (!split.by().empty() && !SplitsAtValues(split)) || !split.holdout_per().empty();
}

uint64_t HashNames(const DatasetSpec& spec) {
  uint64_t hash = 0;
  for (const FeatureSpec& feature : spec.features()) {
    if (!KeepsNames(spec, feature)) continue;
    const proto::LearnedFeature* const known = FindKnown(spec, feature.name());
    hash = HashPair(hash, HashText(feature.name()));
    hash = HashPair(hash, known == nullptr ? 0 : known->names_hash());
  }
  return hash;
}

uint64_t StreamKey(uint64_t seed, uint64_t stream, const Ticket& ticket) {
  return HashPair(HashPair(HashPair(seed, stream), static_cast<uint64_t>(ticket.part)),
                  static_cast<uint64_t>(ticket.epoch));
}

uint64_t SampleStreamKey(uint64_t seed, const Ticket& ticket) {
  const bool training = ticket.part == Part::kTraining;
  return StreamKey(seed, kSampleStream, training ? ticket : Ticket{Part::kTest, 0, 0, 0});
}

}  // namespace coxswain::data
