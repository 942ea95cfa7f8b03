#include "coordinator/runner/best_values.h"

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/model/visits.h"
#include "coordinator/runner/run_state.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/safetensors.h"

namespace coxswain {
namespace {

constexpr char kPrefix[] = "best-";
constexpr char kSuffix[] = ".safetensors";

}  // namespace

BestValues::BestValues(ParameterServerStrategy* strategy, std::string directory)
    : strategy_(strategy), directory_(std::move(directory)), files_(NewRealFileSystem()) {}

absl::StatusOr<std::string> BestValues::Keep(int64_t steps) {
  values_.clear();
  for (const auto& info : strategy_->variables()) {
    if (IsInternal(*info)) continue;
    auto value =
        info->table ? strategy_->Read(EmbeddingTable(info)) : strategy_->Read(Variable(info));
    if (!value.ok()) return value.status();
    values_.emplace_back(info, *std::move(value));
  }
  if (directory_.empty()) return std::string();
  ASSIGN_OR_RETURN(std::string name, WriteFile(steps));
  RemoveOld(name);
  last_ = name;
  return name;
}

absl::StatusOr<std::string> BestValues::WriteFile(int64_t steps) {
  const std::string name = absl::StrFormat("%s%09d%s", kPrefix, steps, kSuffix);
  const std::string path = absl::StrCat(directory_, "/", name), part = path + ".tmp";
  RETURN_IF_ERROR(files_->MakeDirs(directory_));
  std::vector<SafetensorsEntry> entries;
  for (const auto& [info, value] : values_) {
    entries.push_back({info->name, value.dtype(), value.shape()});
  }
  ASSIGN_OR_RETURN(auto writer, SafetensorsWriter::Create(files_.get(), part, std::move(entries)));
  for (const auto& [info, value] : values_) {
    RETURN_IF_ERROR(writer->Append(value.raw(), value.bytes()));
  }
  RETURN_IF_ERROR(writer->Finish());
  RETURN_IF_ERROR(files_->Rename(part, path));
  return name;
}

// A checkpoint that is being written just now may still name the last file.
void BestValues::RemoveOld(const std::string& newest) {
  std::set<std::string> keep = {newest, last_};
  const auto checkpoints = ListCheckpoints(files_.get(), directory_);
  const auto names = files_->List(directory_);
  if (!checkpoints.ok() || !names.ok()) return;  // next time
  for (const CheckpointEntry& entry : *checkpoints) {
    if (!entry.manifest.ok()) continue;
    if (const auto state = ParseRunState(entry.manifest->job_state); state.ok()) {
      keep.insert(state->best_file);
    }
  }
  for (const std::string& name : *names) {
    const bool ours = absl::StartsWith(name, kPrefix) &&
                      (absl::EndsWith(name, kSuffix) || absl::EndsWith(name, ".tmp"));
    if (!ours || keep.count(name) > 0) continue;
    const absl::Status removed = files_->RemoveAll(absl::StrCat(directory_, "/", name));
    if (!removed.ok()) LogWarning("old best values stay: ", removed.message());
  }
}

absl::Status BestValues::Restore(const std::string& file) {
  if (values_.empty() && !file.empty()) {
    const std::string path = absl::StrCat(directory_, "/", file);
    auto opened = SafetensorsFile::Open(files_.get(), path);
    if (!opened.ok()) return Annotate(opened.status(), "the best epoch's values are gone");
    for (const auto& info : strategy_->variables()) {
      if (IsInternal(*info)) continue;
      ASSIGN_OR_RETURN(Tensor value, opened->Read(info->name));
      values_.emplace_back(info, std::move(value));
    }
  }
  for (const auto& [info, value] : values_) {
    RETURN_IF_ERROR(info->table ? strategy_->Assign(EmbeddingTable(info), value)
                                : strategy_->Assign(Variable(info), value));
  }
  values_.clear();
  return absl::OkStatus();
}

}  // namespace coxswain
