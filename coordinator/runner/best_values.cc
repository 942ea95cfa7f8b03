#include "coordinator/runner/best_values.h"

#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/model/visits.h"
#include "coordinator/runner/run_state.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/safetensors.h"

namespace coxswain::runner {
namespace {

constexpr char kPrefix[] = "best-";
constexpr char kSuffix[] = ".safetensors";
constexpr char kUnfinished[] = ".tmp";
constexpr int64_t kPlaces = 1 << 16;  // of a hash table, read at once

std::string FileName(int64_t steps) { return absl::StrFormat("%s%09d%s", kPrefix, steps, kSuffix); }

std::string IdsName(const VariableInfo& info) { return absl::StrCat(info.name, "/ids"); }

// Whether WriteFile makes such a name, or left it unfinished. A user's own "best-..." stays.
bool IsOurs(absl::string_view name) {
  absl::ConsumeSuffix(&name, kUnfinished);
  int64_t steps = 0;
  absl::string_view digits = name;
  return absl::ConsumePrefix(&digits, kPrefix) && absl::ConsumeSuffix(&digits, kSuffix) &&
         absl::SimpleAtoi(digits, &steps) && name == FileName(steps);
}

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

BestValues::BestValues(ParameterServerStrategy* strategy, std::string directory)
    : strategy_(strategy), directory_(std::move(directory)), files_(env::NewRealFileSystem()) {}

absl::StatusOr<std::string> BestValues::Keep(int64_t steps) {
  values_.clear();
  for (const auto& info : strategy_->variables()) {
    if (model::IsInternal(*info)) continue;
    ASSIGN_OR_RETURN(Value value, Read(info));
    values_.push_back(std::move(value));
  }
  if (directory_.empty()) return std::string();
  ASSIGN_OR_RETURN(std::string name, WriteFile(steps));
  RemoveOld(name);
  last_ = name;
  return name;
}

absl::StatusOr<BestValues::Value> BestValues::Read(
    const std::shared_ptr<const VariableInfo>& info) {
  Value value;
  value.info = info;
  if (!info->hash()) {
    auto read =
        info->table ? strategy_->Read(EmbeddingTable(info)) : strategy_->Read(Variable(info));
    if (!read.ok()) return read.status();
    value.values = *std::move(read);
    return value;
  }
  std::vector<Tensor> ids, rows;
  for (int shard = 0; shard < static_cast<int>(info->shards.size()); ++shard) {
    int64_t place = 0;
    do {
      ASSIGN_OR_RETURN(auto read, strategy_->ReadIds(*info, shard, place, kPlaces));
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

absl::StatusOr<std::string> BestValues::WriteFile(int64_t steps) {
  const std::string name = FileName(steps);
  const std::string path = absl::StrCat(directory_, "/", name), part = path + kUnfinished;
  RETURN_IF_ERROR(files_->MakeDirs(directory_));
  std::vector<checkpoint::SafetensorsEntry> entries;
  for (const Value& v : values_) {
    entries.push_back({v.info->name, v.values.dtype(), v.values.shape()});
    if (v.info->hash()) entries.push_back({IdsName(*v.info), v.ids.dtype(), v.ids.shape()});
  }
  ASSIGN_OR_RETURN(auto writer,
                   checkpoint::SafetensorsWriter::Create(files_.get(), part, std::move(entries)));
  for (const Value& v : values_) {
    RETURN_IF_ERROR(writer->Append(v.values.raw(), v.values.bytes()));
    if (v.info->hash()) RETURN_IF_ERROR(writer->Append(v.ids.raw(), v.ids.bytes()));
  }
  RETURN_IF_ERROR(writer->Finish());
  RETURN_IF_ERROR(files_->Rename(part, path));
  return name;
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
    if (!IsOurs(name) || keep.count(name) > 0) continue;
    const absl::Status removed = files_->RemoveAll(absl::StrCat(directory_, "/", name));
    if (!removed.ok()) LogWarning("old best values stay: ", removed.message());
  }
}

absl::Status BestValues::Restore(const std::string& file) {
  if (values_.empty() && !file.empty()) {
    const std::string path = absl::StrCat(directory_, "/", file);
    auto opened = checkpoint::SafetensorsFile::Open(files_.get(), path);
    if (!opened.ok()) return Annotate(opened.status(), "the best epoch's values are gone");
    for (const auto& info : strategy_->variables()) {
      if (model::IsInternal(*info)) continue;
      Value& value = values_.emplace_back();
      value.info = info;
      ASSIGN_OR_RETURN(value.values, opened->Read(info->name));
      if (!info->hash()) continue;
      ASSIGN_OR_RETURN(value.ids, opened->Read(IdsName(*info)));
    }
  }
  for (const Value& value : values_) RETURN_IF_ERROR(Assign(value));
  values_.clear();
  return absl::OkStatus();
}

}  // namespace coxswain::runner
