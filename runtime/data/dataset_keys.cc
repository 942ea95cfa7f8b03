#include "runtime/data/dataset_keys.h"

#include "runtime/data/hash.h"

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
  for (proto::JoinSpec& join : *spec.mutable_joins()) join.clear_path();
  for (FeatureSpec& feature : *spec.mutable_features()) {
    feature.clear_dim();
    feature.clear_combiner();
    if (!feature.vocabulary_file().empty()) feature.set_vocabulary_file("yes");
  }
  for (auto* features : {spec.mutable_learned(), spec.mutable_known()}) {
    for (proto::LearnedFeature& learned : *features) {
      learned.clear_vocabulary_file();
      learned.clear_counts_file();
    }
  }
  spec.DiscardUnknownFields();
  return HashText(spec.SerializeAsString());
}

uint64_t StreamKey(uint64_t seed, uint64_t stream, const Ticket& ticket) {
  return HashPair(HashPair(HashPair(seed, stream), static_cast<uint64_t>(ticket.part)),
                  static_cast<uint64_t>(ticket.epoch));
}

}  // namespace coxswain::data
