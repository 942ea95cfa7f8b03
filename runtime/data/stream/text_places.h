// The pass over a text behind the one that learns its vocabulary: it finds which words are places,
// and counts these in each block.
#pragma once

#include "absl/status/status.h"
#include "protos/dataset.pb.h"
#include "protos/dataset_index.pb.h"
#include "runtime/data/stream/index_builder.h"

namespace coxswain::data {

// Fills in what blocks have of places, in an index that has their words and the vocabulary. Errors:
// InvalidArgument where no word is frequent enough, or the model knows none, and those of
// RunsHeldOut; FailedPrecondition for a file that has changed; ResourceExhausted for an index that
// is too large.
absl::Status CountPlaces(const proto::DatasetSpec& spec, const IndexOptions& options,
                         proto::DatasetIndex* index);

}  // namespace coxswain::data
