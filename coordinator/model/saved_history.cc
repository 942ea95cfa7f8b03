#include "coordinator/model/saved_history.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/model/saved_reader.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/data/vocabulary_file.h"

namespace coxswain::model {
namespace {

constexpr char kFolder[] = "history";
constexpr char kGroups[] = "history/groups.txt";
constexpr char kValuesFile[] = "history/values.safetensors";
constexpr size_t kWritten = size_t{256} << 10;  // bytes of names at a time
constexpr char kOffsets[] = "offsets", kValues[] = "values";

int64_t At(const Tensor& values, int64_t i) {
  return values.dtype() == DType::kI64 ? values.data<int64_t>()[i] : values.data<int32_t>()[i];
}

absl::Status Damaged(const std::string& directory, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(directory, "/", kValuesFile, ": ", what));
}

}  // namespace

absl::Status WriteHistory(const data::Dataset& data, bool in_order, env::FileSystem* files,
                          const std::string& directory) {
  ASSIGN_OR_RETURN(const int64_t groups, data.CountGroups());
  if (groups == 0) return absl::OkStatus();
  RETURN_IF_ERROR(files->MakeDirs(absl::StrCat(directory, "/", kFolder)));
  ASSIGN_OR_RETURN(const auto names, files->Create(absl::StrCat(directory, "/", kGroups)));
  // There may be more than fit into memory: they are gone through for each thing that is written.
  int64_t count = 0, largest = 0;
  std::string lines;
  const auto write_names = [&] {
    const absl::Status written = names->Append(lines.data(), lines.size());
    lines.clear();
    return written;
  };
  RETURN_IF_ERROR(data.VisitGroups(in_order, [&](const std::string& name, auto values) {
    for (const int64_t value : values) largest = std::max(largest, value);
    count += static_cast<int64_t>(values.size());
    lines += data::VocabularyLines({&name, 1});
    return lines.size() < kWritten ? absl::OkStatus() : write_names();
  }));
  RETURN_IF_ERROR(write_names());
  RETURN_IF_ERROR(names->Sync());
  RETURN_IF_ERROR(names->Close());
  const bool wide = largest > std::numeric_limits<int32_t>::max();
  ASSIGN_OR_RETURN(const auto out,
                   checkpoint::SafetensorsWriter::Create(
                       files, absl::StrCat(directory, "/", kValuesFile),
                       {{kOffsets, DType::kI64, Shape{groups + 1}},
                        {kValues, wide ? DType::kI64 : DType::kI32, Shape{count}}}));
  std::vector<int64_t> offsets = {0};
  int64_t offset = 0;
  const auto write_offsets = [&] {
    const absl::Status written = out->Append(offsets.data(), offsets.size() * sizeof(int64_t));
    offsets.clear();
    return written;
  };
  RETURN_IF_ERROR(data.VisitGroups(in_order, [&](const std::string&, auto values) {
    offset += static_cast<int64_t>(values.size());
    offsets.push_back(offset);
    return offsets.size() * sizeof(int64_t) < kWritten ? absl::OkStatus() : write_offsets();
  }));
  RETURN_IF_ERROR(write_offsets());
  std::vector<int32_t> narrow;
  RETURN_IF_ERROR(data.VisitGroups(in_order, [&](const std::string&, auto values) {
    if (wide) return out->Append(values.data(), values.size() * sizeof(int64_t));
    narrow.assign(values.begin(), values.end());
    return out->Append(narrow.data(), narrow.size() * sizeof(int32_t));
  }));
  return out->Finish();
}

absl::StatusOr<SavedHistory> SavedHistory::Load(const std::string& directory, int64_t ids) {
  const auto files = env::NewRealFileSystem();
  if (!files->Exists(absl::StrCat(directory, "/", kGroups))) {
    return absl::NotFoundError(absl::StrCat(directory, " keeps no histories"));
  }
  SavedHistory history;
  ASSIGN_OR_RETURN(auto reader, SavedWords::Reader::Open(absl::StrCat(directory, "/", kGroups)));
  while (true) {
    ASSIGN_OR_RETURN(std::optional<std::string> group, reader.Next());
    if (!group) break;
    history.groups_.push_back(*std::move(group));
  }
  ASSIGN_OR_RETURN(const auto file, checkpoint::SafetensorsFile::Open(
                                        files.get(), absl::StrCat(directory, "/", kValuesFile)));
  ASSIGN_OR_RETURN(history.offsets_, file.Read(kOffsets));
  ASSIGN_OR_RETURN(history.values_, file.Read(kValues));
  const Tensor &offsets = history.offsets_, &values = history.values_;
  const auto groups = static_cast<int64_t>(history.groups_.size());
  if (offsets.dtype() != DType::kI64 || offsets.shape() != Shape{groups + 1} ||
      !IsInteger(values.dtype()) || values.shape().rank() != 1) {
    return Damaged(directory, "wanted offsets i64 of each group, and values");
  }
  const int64_t* const at = offsets.data<int64_t>();
  if (at[0] != 0 || at[groups] != values.num_elements() || !std::is_sorted(at, at + groups + 1)) {
    return Damaged(directory, "its offsets are no offsets");
  }
  for (int64_t i = 0; i < values.num_elements(); ++i) {
    if (At(values, i) < 0 || At(values, i) >= ids) {
      return Damaged(directory,
                     absl::StrCat("the value ", At(values, i), ", wanted ids below ", ids));
    }
  }
  history.ids_.reserve(history.groups_.size());
  for (int64_t group = 0; group < groups; ++group) {
    history.ids_.emplace(history.groups_[static_cast<size_t>(group)], group);
  }
  return history;
}

std::optional<int64_t> SavedHistory::Find(absl::string_view group) const {
  const auto found = ids_.find(group);
  return found == ids_.end() ? std::nullopt : std::optional<int64_t>(found->second);
}

std::vector<int64_t> SavedHistory::Values(int64_t group) const {
  const int64_t* const at = offsets_.data<int64_t>() + group;
  std::vector<int64_t> values;
  values.reserve(static_cast<size_t>(at[1] - at[0]));
  for (int64_t i = at[0]; i < at[1]; ++i) values.push_back(At(values_, i));
  return values;
}

}  // namespace coxswain::model
