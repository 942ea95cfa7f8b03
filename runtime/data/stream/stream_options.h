// Whether a data set is streamed, and in what pieces.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "protos/dataset.pb.h"

namespace coxswain::data {

inline constexpr int64_t kDefaultStreamMemory = int64_t{512} << 20;

// StreamOptions with all that may be left out filled in.
struct StreamSizes {
  int64_t memory = 0;
  int64_t block_bytes = 0;
  int64_t group_bytes = 0;  // of the rows of a row group in memory: more are several blocks
  int64_t window = 0;       // blocks; 0: what memory allows, at most kMostWindow
};
inline constexpr int64_t kMostWindow = 16;

StreamSizes SizesOf(const proto::StreamOptions& options);

// Errors: InvalidArgument for sizes below 0, or an unknown mode.
absl::Status CheckStreamOptions(const proto::StreamOptions& options);

// Why a data set of this spec can only be held in memory, with the key; empty where it need not.
std::string WhyNotStreamed(const proto::DatasetSpec& spec);

// Whether a checked spec is to be streamed: as it says, or where the files have more bytes than
// memory may hold. Errors: InvalidArgument when it is, and cannot be. A file that is not there is
// no error here.
absl::StatusOr<bool> IsStreamed(const proto::DatasetSpec& spec);

}  // namespace coxswain::data
