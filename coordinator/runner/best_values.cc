// Names of files and directories; keeping the best values; going back to them.
#include "coordinator/runner/best_values.h"

#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "coordinator/api/read_as_one.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/model/saved_model.h"
#include "coordinator/model/saved_reader.h"
#include "coordinator/model/visits.h"
#include "coordinator/runner/run_state.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/keep_checkpoint.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/safetensors.h"

namespace coxswain::runner {
namespace {

constexpr char kPrefix[] = "best-";
constexpr char kFileSuffix[] = ".safetensors";  // of earlier versions
constexpr char kUnfinished[] = ".tmp";
constexpr char kManifestFile[] = "manifest.json";  // of a checkpoint
constexpr int kAttempts = 10;
constexpr int64_t kPlaces = 1 << 16;  // of a hash table, read at once

std::string DirectoryName(int64_t steps) { return absl::StrFormat("%s%09d", kPrefix, steps); }

std::string IdsName(const VariableInfo& info) { return absl::StrCat(info.name, "/ids"); }

Tensor Joined(const std::vector<Tensor>& parts, DType dtype, Shape shape) {
  int64_t rows = 0;
  for (const Tensor& part : parts) rows += part.dim(0);
  shape.set_dim(0, rows);
  Tensor all(dtype, shape);
  char* to = static_cast<char*>(all.mutable_raw());
  for (const Tensor& part : parts) {
    if (part.bytes() == 0) continue;
    std::memcpy(to, part.raw(), part.bytes());
    to += part.bytes();
  }
  return all;
}

}  // namespace

bool IsBestValuesName(absl::string_view name) {
  absl::ConsumeSuffix(&name, kUnfinished);
  absl::ConsumeSuffix(&name, kFileSuffix);
  int64_t steps = 0;
  absl::string_view digits = name;
  return absl::ConsumePrefix(&digits, kPrefix) && absl::SimpleAtoi(digits, &steps) &&
         name == DirectoryName(steps);
}

BestValues::BestValues(ParameterServerStrategy* strategy, std::string directory, std::string job,
                       std::function<absl::Status()> save)
    : strategy_(strategy),
      directory_(std::move(directory)),
      job_(std::move(job)),
      save_(std::move(save)),
      files_(env::NewRealFileSystem()) {}

absl::StatusOr<std::string> BestValues::Keep(int64_t steps) {
  if (directory_.empty()) {
    RETURN_IF_ERROR(KeepInMemory());
    return std::string();
  }
  std::string name = DirectoryName(steps);
  unkept_steps_ = steps;
  RETURN_IF_ERROR(save_());
  RETURN_IF_ERROR(LinkNewest(name));
  unkept_steps_ = -1;
  RemoveOld(name);
  last_ = name;
  return name;
}

absl::Status BestValues::KeepInMemory() {
  return ReadAsOne(strategy_->cluster(), "the model", [this]() -> absl::Status {
    values_.clear();
    for (const auto& info : strategy_->variables()) {
      if (model::IsInternal(*info)) continue;
      ASSIGN_OR_RETURN(Value value, Read(info));
      values_.push_back(std::move(value));
    }
    return absl::OkStatus();
  });
}

// Whatever was written since the one that Keep asked for has the same values: nothing trains. One
// that is written just now may take the place of the newest.
absl::Status BestValues::LinkNewest(const std::string& name) {
  const std::string path = absl::StrCat(directory_, "/", name);
  // Of a job that was resumed from before this evaluation.
  for (const char* suffix : {"", kUnfinished}) {
    if (!files_->Exists(path + suffix) || IsOfJob(name + suffix)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        path, suffix, " is there, which this job has not made: it stays; move it elsewhere"));
  }
  RETURN_IF_ERROR(files_->RemoveAll(path));
  absl::Status kept;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    ASSIGN_OR_RETURN(const auto checkpoints, checkpoint::ListCheckpoints(files_.get(), directory_));
    if (checkpoints.empty()) {
      return absl::NotFoundError(absl::StrCat(directory_, " lost its newest checkpoint"));
    }
    kept = checkpoint::KeepCheckpoint(files_.get(), checkpoints[0].path, path);
    if (!absl::IsUnavailable(kept)) break;
  }
  return kept.ok() ? kept : Annotate(kept, "the best values cannot be kept");
}

// Told by what it holds: anybody may give a file or a directory such a name.
bool BestValues::IsOfJob(const std::string& name) const {
  const std::string path = absl::StrCat(directory_, "/", name);
  if (absl::EndsWith(name, kFileSuffix)) {
    const auto opened = checkpoint::SafetensorsFile::Open(files_.get(), path);
    if (!opened.ok()) return false;
    const auto& variables = strategy_->variables();
    return absl::c_all_of(variables, [&opened](const auto& info) {
      return model::IsInternal(*info) ||
             absl::c_any_of(opened->entries(),
                            [&info](const auto& entry) { return entry.name == info->name; });
    });
  }
  if (files_->Exists(absl::StrCat(path, "/", kManifestFile))) {
    const auto manifest = checkpoint::ReadManifest(files_.get(), path);
    return manifest.ok() && manifest->job == job_;
  }
  // Begun only: links to files of a checkpoint, or nothing at all.
  const auto inside = files_->List(path);
  return absl::EndsWith(name, kUnfinished) && inside.ok() &&
         absl::c_all_of(*inside, [](const auto& f) { return absl::EndsWith(f, kFileSuffix); });
}

absl::StatusOr<BestValues::Value> BestValues::Read(
    const std::shared_ptr<const VariableInfo>& info) {
  Value value;
  value.info = info;
  if (!info->hash()) {
    auto read = info->table ? strategy_->Read(EmbeddingTable(info), Values::kAverages)
                            : strategy_->Read(Variable(info), Values::kAverages);
    if (!read.ok()) return read.status();
    value.values = *std::move(read);
    return value;
  }
  std::vector<Tensor> ids, rows;
  for (int shard = 0; shard < static_cast<int>(info->shards.size()); ++shard) {
    int64_t place = 0;
    do {
      ASSIGN_OR_RETURN(auto read,
                       strategy_->ReadIds(*info, shard, place, kPlaces, Values::kAverages));
      ids.push_back(std::move(read.ids));
      rows.push_back(std::move(read.rows));
      place = read.next;
    } while (place > 0);
  }
  value.ids = Joined(ids, DType::kI64, Shape{0});
  value.values = Joined(rows, info->dtype, info->shape);
  return value;
}

absl::Status BestValues::Assign(const Value& value) {
  if (!value.info->hash()) {
    return value.info->table ? strategy_->Assign(EmbeddingTable(value.info), value.values)
                             : strategy_->Assign(Variable(value.info), value.values);
  }
  RETURN_IF_ERROR(strategy_->RemoveIds(*value.info));
  return strategy_->WriteIds(*value.info, value.ids, value.values);
}

// A checkpoint that is being written just now may still name the last file.
void BestValues::RemoveOld(const std::string& newest) {
  std::set<std::string> keep = {newest, last_};
  const auto checkpoints = checkpoint::ListCheckpoints(files_.get(), directory_);
  const auto names = files_->List(directory_);
  if (!checkpoints.ok() || !names.ok()) return;  // next time
  for (const checkpoint::CheckpointEntry& entry : *checkpoints) {
    if (!entry.manifest.ok()) continue;
    if (const auto state = ParseRunState(entry.manifest->job_state); state.ok()) {
      keep.insert(state->best_file);
    }
  }
  for (const std::string& name : *names) {
    if (!IsBestValuesName(name) || keep.count(name) > 0 || !IsOfJob(name)) continue;
    const absl::Status removed = files_->RemoveAll(absl::StrCat(directory_, "/", name));
    if (!removed.ok()) LogWarning("old best values stay: ", removed.message());
  }
}

absl::Status BestValues::RestoreCheckpoint(const std::string& path) {
  ASSIGN_OR_RETURN(const model::SavedSource saved,
                   model::SavedSource::OpenCheckpoint(path, std::nullopt));
  return model::LoadVariables(saved, strategy_);
}

absl::Status BestValues::ReadFile(const std::string& path) {
  ASSIGN_OR_RETURN(auto opened, checkpoint::SafetensorsFile::Open(files_.get(), path));
  for (const auto& info : strategy_->variables()) {
    if (model::IsInternal(*info)) continue;
    Value& value = values_.emplace_back();
    value.info = info;
    ASSIGN_OR_RETURN(value.values, opened.Read(info->name));
    if (!info->hash()) continue;
    ASSIGN_OR_RETURN(value.ids, opened.Read(IdsName(*info)));
  }
  return absl::OkStatus();
}

absl::Status BestValues::Verify(const std::string& name) const {
  const std::string path = absl::StrCat(directory_, "/", name);
  if (absl::EndsWith(name, kFileSuffix)) {
    ASSIGN_OR_RETURN(auto opened, checkpoint::SafetensorsFile::Open(files_.get(), path));
    for (const auto& info : strategy_->variables()) {
      if (model::IsInternal(*info)) continue;
      RETURN_IF_ERROR(opened.Read(info->name).status());
    }
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const checkpoint::Manifest manifest,
                   checkpoint::ReadManifest(files_.get(), path));
  return checkpoint::VerifyCheckpoint(files_.get(), path, manifest);
}

absl::Status BestValues::Restore(const std::string& name, int64_t steps) {
  if (unkept_steps_ == steps) {
    LogWarning("the values after ", steps, " steps are better than those that are kept, and stay");
    return absl::OkStatus();
  }
  if (values_.empty() && !name.empty()) {
    const std::string path = absl::StrCat(directory_, "/", name);
    const bool file = absl::EndsWith(name, kFileSuffix);
    absl::Status read = file ? absl::OkStatus() : Verify(name);
    if (read.ok()) read = file ? ReadFile(path) : RestoreCheckpoint(path);
    if (!read.ok()) return Annotate(read, "the best epoch's values are gone");
  }
  for (const Value& value : values_) RETURN_IF_ERROR(Assign(value));
  values_.clear();
  return absl::OkStatus();
}

}  // namespace coxswain::runner
