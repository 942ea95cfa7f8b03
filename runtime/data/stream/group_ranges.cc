#include "runtime/data/stream/group_ranges.h"

#include <utility>

#include "runtime/base/status.h"
#include "runtime/data/data_format.h"
#include "runtime/data/stream/parsed_block.h"
#include "runtime/data/stream/reads_ahead.h"
#include "runtime/data/table.h"
#include "runtime/data/table_rows.h"
#include "runtime/env/remote_path.h"

namespace coxswain::data {

absl::Status GroupRanges::Learn(const StreamedSpec& data, int file) {
  {
    const absl::MutexLock lock(&mu_);
    if (files_.count(file) > 0) return absl::OkStatus();
  }
  Table table;
  TableRows rows(&table, 0);
  rows.LeaveOutChain();
  table.side_tables = data.side_tables;
  RETURN_IF_ERROR(BindColumns(data.spec, data.vocabularies, &table, &rows));
  ASSIGN_OR_RETURN(auto groups,
                   FormatOf(data.spec).GroupRanges(data.path(file), data.arrow.get(), &rows));
  const absl::MutexLock lock(&mu_);
  files_[file] = std::move(groups);
  return absl::OkStatus();
}

std::vector<ByteRange> GroupRanges::Of(int file, int64_t group) const {
  const absl::MutexLock lock(&mu_);
  const auto found = files_.find(file);
  if (found == files_.end() || group >= static_cast<int64_t>(found->second.size())) return {};
  return found->second[static_cast<size_t>(group)];
}

bool HasRemoteGroups(const StreamedSpec& data) {
  if (!FormatOf(data.spec).has_groups()) return false;
  const int files = data.spec.paths_size() + data.spec.split().test_paths_size();
  for (int i = 0; i < files; ++i) {
    if (env::IsRemotePath(data.path(i))) return true;
  }
  return false;
}

namespace {

// Of the first block, which is parsed at once, the file is opened by who parses it. A store that
// does not answer would be asked again for each of the others.
void LearnGroups(const StreamedSpec& data, const std::vector<int64_t>& blocks) {
  for (size_t i = 1; i < blocks.size(); ++i) {
    const proto::IndexedBlock& block = data.index->blocks(static_cast<int>(blocks[i]));
    if (!env::IsRemotePath(data.path(block))) continue;
    if (!data.group_ranges->Learn(data, block.file()).ok()) return;
  }
}

}  // namespace

void ReadBlocksAhead(const StreamedSpec& data, const std::vector<int64_t>& blocks) {
  std::vector<ReadsAhead::Range> ranges;
  const bool has_groups = FormatOf(data.spec).has_groups();
  if (has_groups) LearnGroups(data, blocks);
  for (const int64_t number : blocks) {
    const proto::IndexedBlock& block = data.index->blocks(static_cast<int>(number));
    if (has_groups) {
      for (const ByteRange& range : data.group_ranges->Of(block.file(), block.group())) {
        ranges.push_back({data.path(block), range.offset, range.bytes});
      }
      continue;
    }
    // Copies of packed files are here.
    if (data.index->files(block.file()).unpacked_bytes() > 0) continue;
    ranges.push_back({data.path(block), block.offset(), block.bytes()});
  }
  data.ahead->Want(ranges);
}

}  // namespace coxswain::data
