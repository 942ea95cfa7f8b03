// Blocks of a text whose places are counted, with the vocabulary that says which words are places.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "protos/dataset_index.pb.h"

namespace coxswain::data {

// Counts the places of a range whose spec CheckSpec returned; notes those at the ends of blocks.
// Reads a packed file from its beginning to its end, and of others the blocks. Memory: a block, and
// the vocabulary. Errors: FailedPrecondition for a file that is not the one that was indexed;
// InvalidArgument for a range that makes no sense; those of files. Ends with Cancelled at its next
// block when it is `stopped`.
absl::StatusOr<proto::TextPlaces> CountPlacesOf(const proto::TextRange& range,
                                                std::function<bool()> stopped = nullptr);

}  // namespace coxswain::data
