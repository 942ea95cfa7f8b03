#include "coordinator/model/saved_inputs.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/model/model_directory.h"
#include "coordinator/model/saved_manifest.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/data/names.h"
#include "runtime/env/file_system.h"
#include "runtime/env/replace_directory.h"

namespace coxswain::model {
namespace {

constexpr char kFingerprint[] = "data_fingerprint";

absl::Status WriteAll(const data::Dataset& data, const job::JobSpec& job,
                      const SavedModelInfo& info, env::FileSystem* files,
                      const std::string& directory, std::string* manifest_text) {
  RETURN_IF_ERROR(WriteInputFiles(data, job, info, files, directory));
  nlohmann::ordered_json manifest = ManifestOf(job, info, kSavedInputs);
  manifest[kFingerprint] = data.fingerprint();
  const std::vector<std::string> names = FilesBelow(directory);
  manifest["files"] = names;
  ASSIGN_OR_RETURN(manifest["checksums"], ChecksumsOf(directory, names));
  *manifest_text =
      manifest.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  return files->WriteAtomically(absl::StrCat(directory, "/", kSavedInputs.file), *manifest_text);
}

// Whether it is one whose manifest is damaged, with nothing beside what a save writes.
bool IsDamaged(const std::string& directory) {
  std::error_code error;
  const std::filesystem::path manifest = std::filesystem::path(directory) / kSavedInputs.file;
  if (!std::filesystem::is_regular_file(manifest, error)) return false;
  if (ReadModelManifest(directory, kSavedInputs).ok()) return false;
  const std::vector<std::string> names = FilesBelow(directory);
  return std::all_of(names.begin(), names.end(), [](const std::string& name) {
    return IsSavedFile(name) &&
           (absl::StrContains(name, '/') || !absl::EndsWith(name, ".safetensors"));
  });
}

absl::Status CheckMayGo(const std::string& directory) {
  absl::Status status = CheckReplaceable(directory, kSavedInputs);
  return status.ok() || !IsDamaged(directory) ? status : absl::OkStatus();
}

// Whether what is there has the same manifest, and is what that says.
bool IsThere(env::FileSystem* files, const std::string& directory, const std::string& manifest) {
  const auto there = files->Read(absl::StrCat(directory, "/", kSavedInputs.file));
  if (!there.ok() || *there != manifest) return false;
  return CheckModelFiles(directory, nlohmann::json::parse(manifest, nullptr, false), kSavedInputs)
      .ok();
}

}  // namespace

std::string InputsOf(const std::string& checkpoints) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path directory(checkpoints);
  if (fs::exists(directory / "manifest.json", ignored)) {  // one checkpoint
    directory = fs::absolute(directory, ignored).lexically_normal();
    if (directory.filename().empty()) directory = directory.parent_path();
    directory = directory.parent_path();
  }
  return (directory / kInputsFolder).string();
}

absl::Status SaveInputs(const data::Dataset& data, const job::JobSpec& job,
                        const SavedModelInfo& info, const std::string& checkpoints) {
  ASSIGN_OR_RETURN(const std::string target,
                   ResolveModelDirectory(absl::StrCat(checkpoints, "/", kInputsFolder)));
  RETURN_IF_ERROR(CheckMayGo(target));
  const auto files = env::NewRealFileSystem();
  ASSIGN_OR_RETURN(env::NewDirectory made,
                   env::MakeDirectoryBeside(files.get(), target, IsSavedFile));
  const std::string temporary = made.path;
  std::string manifest;
  absl::Status saved = WriteAll(data, job, info, files.get(), temporary, &manifest);
  const bool there = saved.ok() && IsThere(files.get(), target, manifest);
  if (saved.ok() && !there) {
    saved = env::ReplaceDirectory(files.get(), std::move(made), target, CheckMayGo);
  }
  if (there || !saved.ok()) files->RemoveAll(temporary).IgnoreError();
  return saved;
}

absl::Status CheckInputsFit(const std::string& inputs, const checkpoint::Manifest& checkpoint,
                            const std::string& path) {
  auto manifest = ReadModelManifest(inputs, kSavedInputs);
  if (absl::IsNotFound(manifest.status())) {
    return absl::NotFoundError(absl::StrCat(
        inputs, " is not there: nothing says how values become the model's inputs. `coxswain ",
        "train --checkpoint-dir` writes it when it begins, or goes on with --resume"));
  }
  RETURN_IF_ERROR(manifest.status());
  const auto other = [&](absl::string_view what, const std::string& wanted,
                         const std::string& found) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": the checkpoint is of ", what, " ",
                                                      found, ", and ", inputs, " of ", wanted));
  };
  const auto name = manifest->find("job");
  const std::string job =
      name != manifest->end() && name->is_string() ? name->get<std::string>() : "";
  if (job != checkpoint.job) {
    return other("job", data::Quoted(job), data::Quoted(checkpoint.job));
  }
  const auto state = nlohmann::json::parse(checkpoint.job_state, nullptr, false);
  const auto fingerprint = [](const nlohmann::json& json) {
    const auto found = json.is_object() ? json.find(kFingerprint) : json.end();
    return json.is_object() && found != json.end() ? found->dump() : std::string("none");
  };
  const std::string wanted = fingerprint(*manifest), found = fingerprint(state);
  return wanted == found ? absl::OkStatus() : other("the data", wanted, found);
}

absl::StatusOr<job::JobSpec> ReadKeptJob(const std::string& directory, const ManifestKind& kind,
                                         const std::vector<std::string>& overrides) {
  ASSIGN_OR_RETURN(const SavedModelInfo info, ReadModelInfo(directory, kind));
  std::vector<std::string> all = info.overrides;
  all.insert(all.end(), overrides.begin(), overrides.end());
  ASSIGN_OR_RETURN(
      job::JobSpec job,
      job::ParseKeptJob(info.job_text, absl::StrCat(directory, "/job.yaml"),
                        std::filesystem::path(info.job_file).parent_path().string(), all));
  // A job without a name is called like its file, which has another name here.
  if (job.locations.count("name") == 0 && !info.job.empty()) job.name = info.job;
  return job;
}

absl::Status VerifySource(const SavedSource& source) {
  if (!source.is_checkpoint()) return source.VerifyModel();
  const auto files = env::NewRealFileSystem();
  ASSIGN_OR_RETURN(const checkpoint::Manifest manifest,
                   checkpoint::ReadManifest(files.get(), source.path()));
  return checkpoint::VerifyCheckpoint(files.get(), source.path(), manifest);
}

absl::Status NameRows(const std::string& checkpoints, SavedSource* source) {
  ASSIGN_OR_RETURN(const checkpoint::Manifest manifest,
                   checkpoint::ReadManifest(env::NewRealFileSystem().get(), source->path()));
  const std::string inputs = InputsOf(checkpoints);
  const absl::Status fit = CheckInputsFit(inputs, manifest, source->path());
  if (absl::IsNotFound(fit) || absl::IsFailedPrecondition(fit)) return absl::OkStatus();
  RETURN_IF_ERROR(fit);
  ASSIGN_OR_RETURN(const job::JobSpec job, ReadKeptJob(inputs, kSavedInputs));
  source->UseVocabularies(inputs,
                          [&job](const std::string& table) { return VocabularyOf(job, table); });
  return absl::OkStatus();
}

}  // namespace coxswain::model
