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
  if (data.groups().empty()) return absl::OkStatus();
  RETURN_IF_ERROR(files->MakeDirs(absl::StrCat(directory, "/", kFolder)));
  RETURN_IF_ERROR(files->WriteAtomically(absl::StrCat(directory, "/", kGroups),
                                         data::VocabularyLines(data.groups())));
  const auto groups = static_cast<int64_t>(data.groups().size());
  std::vector<int64_t> offsets = {0};
  int64_t largest = 0;
  for (int64_t group = 0; group < groups; ++group) {
    const auto values = data.GroupHistory(group, in_order);
    if (!values.empty()) {
      largest = std::max(largest, *std::max_element(values.begin(), values.end()));
    }
    offsets.push_back(offsets.back() + static_cast<int64_t>(values.size()));
  }
  const bool wide = largest > std::numeric_limits<int32_t>::max();
  ASSIGN_OR_RETURN(const auto out,
                   checkpoint::SafetensorsWriter::Create(
                       files, absl::StrCat(directory, "/", kValuesFile),
                       {{kOffsets, DType::kI64, Shape{groups + 1}},
                        {kValues, wide ? DType::kI64 : DType::kI32, Shape{offsets.back()}}}));
  RETURN_IF_ERROR(out->Append(offsets.data(), offsets.size() * sizeof(int64_t)));
  std::vector<int32_t> narrow;
  for (int64_t group = 0; group < groups; ++group) {
    const auto values = data.GroupHistory(group, in_order);
    if (wide) {
      RETURN_IF_ERROR(out->Append(values.data(), values.size() * sizeof(int64_t)));
      continue;
    }
    narrow.assign(values.begin(), values.end());
    RETURN_IF_ERROR(out->Append(narrow.data(), narrow.size() * sizeof(int32_t)));
  }
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
