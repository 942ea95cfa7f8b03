// The groups of a data set with a history, in memory or in a group file.
#include <algorithm>

#include "runtime/base/status.h"
#include "runtime/data/dataset.h"
#include "runtime/data/stream/group_files.h"
#include "runtime/data/stream/streamed_rows.h"

namespace coxswain::data {
namespace {

constexpr int64_t kGroupsAtATime = 1024;

// Of a streamed data set; null where it has no history.
absl::StatusOr<GroupFiles::File> FileOf(const StreamedSpec& data) {
  if (!data.history) return GroupFiles::File();
  return data.groups->Open(data, *data.history);
}

absl::StatusOr<std::vector<int64_t>> ValuesOf(const GroupFile& file,
                                              const GroupFile::Extent& extent, bool sorted) {
  std::vector<int64_t> values(static_cast<size_t>(extent.size));
  RETURN_IF_ERROR(file.ReadValues(extent, 0, absl::MakeSpan(values)));
  if (sorted) std::sort(values.begin(), values.end());
  return values;
}

}  // namespace

absl::StatusOr<int64_t> Dataset::CountGroups() const {
  if (stream_ == nullptr) return static_cast<int64_t>(groups_.size());
  ASSIGN_OR_RETURN(const GroupFiles::File file, FileOf(stream_->data()));
  return file == nullptr ? 0 : file->groups();
}

absl::Status Dataset::VisitGroups(bool in_order, const VisitGroup& visit) const {
  if (stream_ == nullptr) {
    for (size_t group = 0; group < groups_.size(); ++group) {
      RETURN_IF_ERROR(visit(groups_[group], GroupHistory(static_cast<int64_t>(group), in_order)));
    }
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const GroupFiles::File file, FileOf(stream_->data()));
  if (file == nullptr) return absl::OkStatus();
  const bool sorted = !in_order && !stream_->data().history->by.empty();
  std::vector<std::string> names;
  std::vector<GroupFile::Extent> extents;
  for (int64_t first = 0; first < file->groups(); first += kGroupsAtATime) {
    names.resize(static_cast<size_t>(std::min(kGroupsAtATime, file->groups() - first)));
    extents.resize(names.size());
    RETURN_IF_ERROR(file->ReadNames(first, absl::MakeSpan(names)));
    RETURN_IF_ERROR(file->ReadExtents(first, absl::MakeSpan(extents)));
    for (size_t i = 0; i < names.size(); ++i) {
      ASSIGN_OR_RETURN(const std::vector<int64_t> values, ValuesOf(*file, extents[i], sorted));
      RETURN_IF_ERROR(visit(names[i], values));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::vector<int64_t>>> Dataset::HistoryOf(absl::string_view group,
                                                                       bool in_order) const {
  if (stream_ == nullptr) {
    const std::optional<int64_t> found = FindGroup(group);
    if (!found) return std::nullopt;
    const absl::Span<const int64_t> values = GroupHistory(*found, in_order);
    return std::vector<int64_t>(values.begin(), values.end());
  }
  ASSIGN_OR_RETURN(const GroupFiles::File file, FileOf(stream_->data()));
  if (file == nullptr) return std::nullopt;
  std::vector<std::string> names;
  for (int64_t first = 0; first < file->groups(); first += kGroupsAtATime) {
    names.resize(static_cast<size_t>(std::min(kGroupsAtATime, file->groups() - first)));
    RETURN_IF_ERROR(file->ReadNames(first, absl::MakeSpan(names)));
    const auto found = std::find(names.begin(), names.end(), group);
    if (found == names.end()) continue;
    GroupFile::Extent extent;
    RETURN_IF_ERROR(file->ReadExtents(first + (found - names.begin()), {&extent, 1}));
    const bool sorted = !in_order && !stream_->data().history->by.empty();
    ASSIGN_OR_RETURN(std::vector<int64_t> values, ValuesOf(*file, extent, sorted));
    return values;
  }
  return std::nullopt;
}

}  // namespace coxswain::data
