// Writing: the variables, the manifest, all files into a new directory. Reading: the manifest,
// and values into variables.
#include "coordinator/model/saved_model.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "coordinator/api/read_as_one.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/job/model_kind.h"
#include "coordinator/model/copy_rows.h"
#include "coordinator/model/model_directory.h"
#include "coordinator/model/saved_history.h"
#include "coordinator/model/saved_learned.h"
#include "coordinator/model/saved_manifest.h"
#include "coordinator/model/saved_reader.h"
#include "coordinator/model/saved_side_tables.h"
#include "coordinator/model/saved_slots.h"
#include "coordinator/model/visits.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/base/version.h"
#include "runtime/env/file_system.h"
#include "runtime/env/replace_directory.h"
#include "runtime/tensor/limits.h"

namespace coxswain::model {
namespace {

std::string FileName(const std::string& variable) {
  return absl::StrCat(absl::StrReplaceAll(variable, {{"/", "."}}), ".safetensors");
}

// The variables' entries in the manifest, see saved_reader.h.
absl::StatusOr<nlohmann::ordered_json> WriteVariables(ParameterServerStrategy* strategy,
                                                      const data::Dataset& data,
                                                      const job::JobSpec& job, bool slots,
                                                      env::FileSystem* files,
                                                      const std::string& directory) {
  auto written = nlohmann::ordered_json::array();
  for (const auto& info : strategy->variables()) {
    if (IsInternal(*info)) continue;
    const std::string path = absl::StrCat(directory, "/", FileName(info->name));
    ASSIGN_OR_RETURN(const nlohmann::ordered_json values,
                     WriteValues(strategy, *info, files, path));
    nlohmann::ordered_json entry = {
        {"name", info->name},
        {"dtype", std::string(DTypeName(info->dtype))},
        {"shape", std::vector<int64_t>(info->shape.dims().begin(), info->shape.dims().end())},
        {"table", info->table},
        {"file", FileName(info->name)}};
    entry.update(values);
    if (info->hash()) entry["hash"] = true;
    if (!info->hash() && info->strategy == "hash") entry["row_order"] = "hash";
    const std::string feature = VocabularyOf(job, info->name);
    if (data.vocabulary(feature) != nullptr) entry["vocabulary"] = feature;
    if (info->table && data.keeps_names(feature)) entry["names"] = feature;
    if (slots) {
      ASSIGN_OR_RETURN(auto kept, WriteSlots(strategy, *info, files, directory,
                                             absl::StrCat(kSlotsFolder, FileName(info->name))));
      if (!kept.is_null()) entry["slots"] = std::move(kept);
    }
    written.push_back(std::move(entry));
  }
  return written;
}

// The checksums of files that are not in the entries of variables.
std::vector<std::string> WithoutVariables(const std::vector<std::string>& names,
                                          const nlohmann::ordered_json& variables) {
  std::set<std::string> of_variables;
  for (const auto& variable : variables) {
    of_variables.insert(variable["file"].get<std::string>());
    const auto slots = variable.find("slots");
    if (slots != variable.end() && slots->contains("file")) {
      of_variables.insert((*slots)["file"].get<std::string>());
    }
  }
  std::vector<std::string> others;
  for (const std::string& name : names) {
    if (of_variables.count(name) == 0) others.push_back(name);
  }
  return others;
}

// All files of a model, the manifest last.
absl::Status WriteModel(ParameterServerStrategy* strategy, const data::Dataset& data,
                        const job::JobSpec& job, const SavedModelInfo& info, env::FileSystem* files,
                        const std::string& directory) {
  nlohmann::ordered_json variables;
  RETURN_IF_ERROR(ReadAsOne(strategy->cluster(), "the model", [&]() -> absl::Status {
    ASSIGN_OR_RETURN(variables, WriteVariables(strategy, data, job, info.slots, files, directory));
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(WriteInputFiles(data, job, info, files, directory));
  RETURN_IF_ERROR(WriteSideTables(data, job.dataset, /*version=*/"", files, directory));
  nlohmann::ordered_json manifest = ManifestOf(job, info, kSavedModel);
  manifest["steps"] = info.steps;
  manifest["metrics"] = info.metrics;
  // The files that a newer model may replace; no other file in the directory belongs to the model.
  const std::vector<std::string> names = FilesBelow(directory);
  ASSIGN_OR_RETURN(auto checksums, ChecksumsOf(directory, WithoutVariables(names, variables)));
  manifest["variables"] = std::move(variables);
  manifest["files"] = names;
  manifest["checksums"] = std::move(checksums);
  return files->WriteAtomically(
      absl::StrCat(directory, "/", kModelManifest),
      manifest.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace

absl::Status WriteInputFiles(const data::Dataset& data, const job::JobSpec& job,
                             const SavedModelInfo& info, env::FileSystem* files,
                             const std::string& directory) {
  RETURN_IF_ERROR(
      WriteLearned(data, files, directory, info.earlier ? &info.earlier->trained : nullptr));
  RETURN_IF_ERROR(
      WriteHistory(data, job, info.earlier ? &*info.earlier : nullptr, files, directory));
  return files->WriteAtomically(absl::StrCat(directory, "/job.yaml"), info.job_text);
}

nlohmann::ordered_json ManifestOf(const job::JobSpec& job, const SavedModelInfo& info,
                                  const ManifestKind& kind) {
  nlohmann::ordered_json manifest;
  manifest["format"] = kind.format;
  manifest["format_version"] = kModelFormat;
  manifest["version"] = kVersion;
  manifest["job"] = job.name;
  manifest["job_file"] = info.job_file;
  manifest["overrides"] = info.overrides;
  if (info.earlier && info.earlier->steps > 0) manifest["earlier_steps"] = info.earlier->steps;
  return manifest;
}

std::vector<std::string> FilesBelow(const std::string& directory) {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::recursive_directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    if (it->is_directory(error) || it->path().filename() == env::kBeingWritten) continue;
    names.push_back(it->path().lexically_relative(directory).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string VocabularyOf(const job::JobSpec& job, const std::string& table) {
  const job::TableSpec* spec = job.FindTable(table);
  const proto::FeatureSpec* feature = spec == nullptr ? nullptr : job.FindFeature(spec->feature);
  if (feature == nullptr) return "";
  return feature->history_of().empty() ? feature->name() : feature->history_of();
}

absl::Status SaveModel(ParameterServerStrategy* strategy, const data::Dataset& data,
                       const job::JobSpec& job, const SavedModelInfo& info,
                       const std::string& directory) {
  ASSIGN_OR_RETURN(const std::string target, ResolveModelDirectory(directory));
  RETURN_IF_ERROR(CheckReplaceable(target));
  const auto files = env::NewRealFileSystem();
  ASSIGN_OR_RETURN(env::NewDirectory made,
                   env::MakeDirectoryBeside(files.get(), target, IsSavedFile));
  const std::string temporary = made.path;
  absl::Status saved = WriteModel(strategy, data, job, info, files.get(), temporary);
  // The old model goes only once the new one is whole.
  if (saved.ok()) {
    saved = env::ReplaceDirectory(files.get(), std::move(made), target,
                                  [](const std::string& path) { return CheckReplaceable(path); });
  }
  if (saved.ok()) return saved;
  // Part of a model is useless, and may be what fills the disk. The first error is the one to
  // report.
  files->RemoveAll(temporary).IgnoreError();
  return saved;
}

absl::StatusOr<SavedModelInfo> ReadModelInfo(const std::string& directory,
                                             const ManifestKind& kind) {
  ASSIGN_OR_RETURN(const nlohmann::json json, ReadModelManifest(directory, kind));
  const auto files = env::NewRealFileSystem();
  SavedModelInfo info;
  if (json.contains("job") && json["job"].is_string()) info.job = json["job"];
  if (json.contains("job_file") && json["job_file"].is_string()) info.job_file = json["job_file"];
  if (json.contains("steps") && json["steps"].is_number_integer()) info.steps = json["steps"];
  if (json.contains("overrides") && json["overrides"].is_array()) {
    for (const auto& o : json["overrides"]) {
      if (o.is_string()) info.overrides.push_back(o);
    }
  }
  ASSIGN_OR_RETURN(info.job_text, files->Read(absl::StrCat(directory, "/job.yaml")));
  return info;
}

namespace {

absl::Status LoadVariable(const SavedSource& saved, const std::shared_ptr<const VariableInfo>& info,
                          ParameterServerStrategy* strategy) {
  ASSIGN_OR_RETURN(const SavedRows rows, saved.Open(info->name));
  const SavedVariable& found = rows.variable();
  const bool same_shape =
      info->hash() ? rows.row_elements() == info->row_elements() : found.shape == info->shape;
  const bool same_dtype = found.dtype == info->dtype || found.dtype == info->value_dtype();
  if (!same_dtype || found.table != info->table || found.hash != info->hash() || !same_shape) {
    return absl::InvalidArgumentError(absl::StrCat(
        "variable '", info->name, "': wanted ", DTypeName(info->dtype), info->shape.ToString(),
        ", found ", DTypeName(found.dtype), found.shape.ToString()));
  }
  if (info->hash()) {
    RETURN_IF_ERROR(strategy->RemoveIds(*info));
    return CopyIds(rows, *info, strategy).status();
  }
  return info->table ? CopyTable(rows, info, strategy) : CopyDense(rows, info, strategy);
}

}  // namespace

absl::Status LoadVariables(const SavedSource& saved, ParameterServerStrategy* strategy) {
  for (const auto& info : strategy->variables()) {
    if (IsInternal(*info)) continue;
    const absl::Status loaded = LoadVariable(saved, info, strategy);
    if (absl::IsInvalidArgument(loaded) || absl::IsNotFound(loaded)) {
      return Annotate(loaded, absl::StrCat(saved.path(), " does not fit the job and its data"));
    }
    RETURN_IF_ERROR(loaded);
  }
  return absl::OkStatus();
}

absl::Status LoadVariables(const std::string& directory, ParameterServerStrategy* strategy) {
  ASSIGN_OR_RETURN(const SavedSource saved, SavedSource::OpenModel(directory));
  return LoadVariables(saved, strategy);
}

}  // namespace coxswain::model
