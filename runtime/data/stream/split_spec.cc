#include "runtime/data/stream/split_spec.h"

#include "runtime/data/trained_rows.h"

namespace coxswain::data {

proto::DatasetSpec SpecOfParts(const proto::DatasetSpec& spec, bool* all_columns) {
  proto::DatasetSpec less = spec;
  less.mutable_split()->clear_test_paths();
  // Whether a row is passed over depends on all of its columns.
  *all_columns = (spec.trained().rows() > 0 && DrawChange(spec).empty()) || spec.max_bad_rows() > 0;
  if (*all_columns) return less;
  less.clear_features();
  less.clear_label();
  less.clear_labels();
  less.clear_learned();
  less.clear_known();
  less.clear_known_items();
  less.clear_trained();
  return less;
}

}  // namespace coxswain::data
