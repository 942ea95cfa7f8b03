#include "runtime/data/stream/stream_options.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/bytes_text.h"
#include "runtime/base/status.h"
#include "runtime/data/data_file.h"
#include "runtime/data/data_format.h"
#include "runtime/data/names.h"
#include "runtime/data/spec_check.h"

namespace coxswain::data {
namespace {

using proto::StreamOptions;

constexpr int64_t kMostBlockBytes = int64_t{4} << 20;
constexpr int64_t kBlocksInMemory = 128;
// Larger blocks for row groups, because each block of a group reads the beginning of the group
// again.
constexpr int64_t kGroupBlocksInMemory = 8;
// The assumed compression ratio of a compressed file.
constexpr int64_t kPacked = 4;

std::vector<std::string> AllPaths(const proto::DatasetSpec& spec) {
  std::vector<std::string> paths(spec.paths().begin(), spec.paths().end());
  paths.insert(paths.end(), spec.split().test_paths().begin(), spec.split().test_paths().end());
  return paths;
}

bool IsPacked(const std::string& path) {
  return absl::EndsWith(path, ".gz") || absl::EndsWith(path, ".zst");
}

}  // namespace

StreamSizes SizesOf(const StreamOptions& options) {
  StreamSizes sizes;
  sizes.memory = options.memory() > 0 ? options.memory() : kDefaultStreamMemory;
  sizes.block_bytes = options.block_bytes() > 0
                          ? options.block_bytes()
                          : std::clamp<int64_t>(sizes.memory / kBlocksInMemory, 1, kMostBlockBytes);
  sizes.group_bytes = options.block_bytes() > 0
                          ? options.block_bytes()
                          : std::max<int64_t>(1, sizes.memory / kGroupBlocksInMemory);
  sizes.window = options.shuffle_window();
  return sizes;
}

absl::Status CheckStreamOptions(const StreamOptions& options) {
  if (!StreamOptions::Mode_IsValid(options.mode())) {
    return absl::InvalidArgumentError("data set: unknown mode of streaming");
  }
  for (const int64_t size :
       {options.memory(), options.block_bytes(), options.shuffle_window(), options.cache_bytes()}) {
    if (size >= 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "data set: stream: wanted memory, block_bytes, shuffle_window and cache_bytes of at least ",
        "0, found ", size));
  }
  return absl::OkStatus();
}

std::string WhyNotStreamed(const proto::DatasetSpec& spec) {
  if (!FormatOf(spec).has_blocks()) {
    return absl::StrCat("dataset.format: ", spec.format(), " is read into memory");
  }
  if (spec.followed() && FormatOf(spec).has_files_beside()) {
    return absl::StrCat("dataset.format: ", spec.format(),
                        ": the second file of a pair may come later than the first");
  }
  for (const proto::FeatureSpec& feature : spec.features()) {
    if (!IsHistory(feature)) continue;
    if (spec.followed()) {
      return absl::StrCat("features.", feature.name(), ": a history, with dataset.follow");
    }
    if (feature.width() > 0) {
      return absl::StrCat("features.", feature.name(),
                          ": a history whose windows are examples (model.positions: all)");
    }
  }
  if (spec.has_known_items() && spec.followed()) {
    return "evaluate: what else a user has, with dataset.follow";
  }
  return FormatOf(spec).WhyNoBlocks(spec);
}

absl::StatusOr<bool> IsStreamed(const proto::DatasetSpec& spec) {
  const bool followed = spec.followed() && spec.learned().empty();
  if (spec.stream().mode() == StreamOptions::NEVER && !followed) return false;
  int64_t bytes = 0;
  for (const std::string& path : AllPaths(spec)) {
    const auto file = OpenDataFile(path);
    if (!file.ok()) continue;  // reading it will report the error
    const bool packed = IsPacked(path) || FormatOf(spec).has_groups();
    bytes += static_cast<int64_t>((*file)->size()) * (packed ? kPacked : 1);
  }
  const int64_t memory = SizesOf(spec.stream()).memory;
  const bool always = followed || spec.stream().mode() == StreamOptions::ALWAYS;
  if (!always && bytes <= memory) return false;
  const std::string reason = WhyNotStreamed(spec);
  if (reason.empty()) return true;
  return absl::InvalidArgumentError(absl::StrCat(
      "data set: ",
      followed ? "dataset.follow is true"
      : always ? "dataset.streaming is true"
               : absl::StrCat("the files have ", BytesText(bytes), ", more than dataset.memory (",
                              BytesText(memory), ")"),
      ", and the data set cannot be streamed: ", reason,
      always ? ""
             : "; wanted dataset.streaming: false (all of it is held in memory), or a larger "
               "dataset.memory"));
}

}  // namespace coxswain::data
