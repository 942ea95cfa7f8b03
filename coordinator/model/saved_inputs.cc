// The side tables of a job that follows, whose versions come and go; writing inputs, and adding to
// them; then what reads them.
#include "coordinator/model/saved_inputs.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/model/model_directory.h"
#include "coordinator/model/saved_manifest.h"
#include "coordinator/model/saved_side_tables.h"
#include "nlohmann/json.hpp"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/data/names.h"
#include "runtime/env/file_system.h"
#include "runtime/env/replace_directory.h"
#include "runtime/env/unfinished_files.h"

namespace coxswain::model {
namespace {

constexpr char kFingerprint[] = "data_fingerprint";

// Names the side tables that `data` has now; empty for a job that has the same ones throughout.
std::string VersionOf(const data::Dataset& data, const job::JobSpec& job) {
  const data::SideTableFilesPtr tables = data.side_tables().Get();
  return job.follow.enabled && tables != nullptr ? tables->version : "";
}

// Those of the checkpoints that there are.
std::set<std::string> VersionsWanted(env::FileSystem* files, const std::string& checkpoints) {
  std::set<std::string> versions;
  const auto entries = checkpoint::ListCheckpoints(files, checkpoints);
  if (!entries.ok()) return versions;
  for (const checkpoint::CheckpointEntry& entry : *entries) {
    if (entry.manifest.ok()) versions.insert(SideTablesOf(*entry.manifest));
  }
  versions.erase("");
  return versions;
}

// The files of a manifest that are of these versions.
std::set<std::string> FilesOfVersions(const std::set<std::string>& listed,
                                      const std::set<std::string>& versions) {
  std::set<std::string> names;
  for (const std::string& version : versions) {
    const std::string folder = SideTableFolder(version);
    for (auto at = listed.lower_bound(folder); at != listed.end() && absl::StartsWith(*at, folder);
         ++at) {
      names.insert(*at);
    }
  }
  return names;
}

// Copies versions from inputs to another directory. One that is damaged is left behind, and whoever
// wants it is told that it is not there.
absl::Status TakeVersions(env::FileSystem* files, const std::set<std::string>& versions,
                          const std::string& from, const std::string& to) {
  const std::set<std::string> listed = FilesOfModel(files, from, kSavedInputs);
  for (const std::string& version : versions) {
    const std::string folder = absl::StrCat(to, "/", SideTableFolder(version));
    const std::set<std::string> names = FilesOfVersions(listed, {version});
    const bool good = absl::c_all_of(names, [&from](const std::string& name) {
      return CheckModelFile(from, name, kSavedInputs).ok();
    });
    if (names.empty() || !good || files->Exists(folder)) continue;
    RETURN_IF_ERROR(files->MakeDirs(folder));
    for (const std::string& name : names) {
      ASSIGN_OR_RETURN(const std::string content, files->Read(absl::StrCat(from, "/", name)));
      RETURN_IF_ERROR(files->WriteAtomically(absl::StrCat(to, "/", name), content));
    }
  }
  return absl::OkStatus();
}

// Removes versions that the manifest does not list: nobody wants them any more, or whoever wrote
// them was killed over it.
void RemoveUnlisted(env::FileSystem* files, const std::string& directory) {
  const std::set<std::string> listed = FilesOfModel(files, directory, kSavedInputs);
  if (listed.empty()) return;
  for (const std::string& version : SideTableVersions(files, directory)) {
    if (!FilesOfVersions(listed, {version}).empty()) continue;
    files->RemoveAll(absl::StrCat(directory, "/", SideTableFolder(version))).IgnoreError();
  }
}

// Of files that are written into inputs that are there already. To who replaces the directory, what
// a kill left of one would be a file of somebody else's.
void RemoveUnfinished(env::FileSystem* files, const std::string& directory) {
  env::RemoveUnfinished(absl::StrCat(directory, "/", kSavedInputs.file));
  for (const std::string& name : FilesOfModel(files, directory, kSavedInputs)) {
    const bool table = absl::StartsWith(name, SideTableFolder(""));
    if (table) env::RemoveUnfinished(absl::StrCat(directory, "/", name));
  }
}

std::string TextOf(const nlohmann::ordered_json& manifest) {
  return manifest.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// `checkpoints`: those that the inputs are beside; `earlier`: the inputs that are there now.
absl::Status WriteAll(const data::Dataset& data, const job::JobSpec& job,
                      const SavedModelInfo& info, const std::string& checkpoints,
                      const std::string& earlier, env::FileSystem* files,
                      const std::string& directory, std::string* manifest_text) {
  RETURN_IF_ERROR(WriteInputFiles(data, job, info, files, directory));
  nlohmann::ordered_json manifest = ManifestOf(job, info, kSavedInputs);
  manifest[kFingerprint] = data.fingerprint();
  const std::string version = VersionOf(data, job);
  RETURN_IF_ERROR(WriteSideTables(data, job.dataset, version, files, directory));
  if (!version.empty()) {
    manifest[kSideTables] = version;
    RETURN_IF_ERROR(TakeVersions(files, VersionsWanted(files, checkpoints), earlier, directory));
  }
  const std::vector<std::string> names = FilesBelow(directory);
  manifest["files"] = names;
  ASSIGN_OR_RETURN(manifest["checksums"], ChecksumsOf(directory, names));
  *manifest_text = TextOf(manifest);
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

// A manifest that lists its files with their checksums; null where the text is none.
nlohmann::ordered_json ParseInputs(const std::string& text) {
  auto manifest = nlohmann::ordered_json::parse(text, nullptr, false);
  const auto has = [&manifest](const char* key, auto is_good) {
    const auto found = manifest.find(key);
    return found != manifest.end() && is_good(*found);
  };
  const bool good = manifest.is_object() &&
                    has("files", [](const auto& files) { return files.is_array(); }) &&
                    has("checksums", [](const auto& sums) { return sums.is_object(); });
  return good ? manifest : nlohmann::ordered_json();
}

std::set<std::string> ListedIn(const nlohmann::ordered_json& manifest) {
  std::set<std::string> names;
  for (const auto& [name, sum] : manifest["checksums"].items()) names.insert(name);
  return names;
}

// The manifest without side tables that are not in the list.
nlohmann::ordered_json OnlyListedTables(nlohmann::ordered_json manifest,
                                        const std::set<std::string>& listed) {
  auto files = nlohmann::ordered_json::array();
  for (const std::string& name : ListedIn(manifest)) {
    if (!absl::StartsWith(name, SideTableFolder("")) || listed.count(name) > 0) {
      files.push_back(name);
    } else {
      manifest["checksums"].erase(name);
    }
  }
  manifest["files"] = std::move(files);
  return manifest;
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

namespace {

absl::Status SaveWhole(const data::Dataset& data, const job::JobSpec& job,
                       const SavedModelInfo& info, const std::string& checkpoints) {
  ASSIGN_OR_RETURN(const std::string target,
                   ResolveModelDirectory(absl::StrCat(checkpoints, "/", kInputsFolder)));
  const auto files = env::NewRealFileSystem();
  RemoveUnfinished(files.get(), target);
  RemoveUnlisted(files.get(), target);
  RETURN_IF_ERROR(CheckMayGo(target));
  ASSIGN_OR_RETURN(env::NewDirectory made,
                   env::MakeDirectoryBeside(files.get(), target, IsSavedFile));
  const std::string temporary = made.path;
  std::string manifest;
  absl::Status saved =
      WriteAll(data, job, info, checkpoints, target, files.get(), temporary, &manifest);
  const bool there = saved.ok() && IsThere(files.get(), target, manifest);
  if (saved.ok() && !there) {
    saved = env::ReplaceDirectory(files.get(), std::move(made), target, CheckMayGo);
  }
  if (there || !saved.ok()) files->RemoveAll(temporary).IgnoreError();
  return saved;
}

}  // namespace

absl::Status SaveInputs(const data::Dataset& data, const job::JobSpec& job,
                        const SavedModelInfo& info, const std::string& checkpoints) {
  const absl::Status saved = SaveWhole(data, job, info, checkpoints);
  // The next checkpoint names the tables that there are now, which may be replaced before another
  // attempt.
  if (!saved.ok()) UpdateSideTables(data, job, checkpoints).IgnoreError();
  return saved;
}

absl::Status UpdateSideTables(const data::Dataset& data, const job::JobSpec& job,
                              const std::string& checkpoints) {
  const std::string version = VersionOf(data, job);
  if (version.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string target,
                   ResolveModelDirectory(absl::StrCat(checkpoints, "/", kInputsFolder)));
  ASSIGN_OR_RETURN(const nlohmann::json there, ReadModelManifest(target, kSavedInputs));
  const auto files = env::NewRealFileSystem();
  const std::string path = absl::StrCat(target, "/", kSavedInputs.file);
  ASSIGN_OR_RETURN(const std::string text, files->Read(path));
  auto manifest = nlohmann::ordered_json::parse(text, nullptr, false);
  const auto fingerprint = there.find(kFingerprint);
  if (!manifest.is_object() || fingerprint == there.end() || *fingerprint != data.fingerprint()) {
    return absl::FailedPreconditionError(absl::StrCat(target, " is of another job"));
  }
  const std::string before = SideTablesOf(there);
  if (before == version) return absl::OkStatus();
  RemoveUnfinished(files.get(), target);
  RETURN_IF_ERROR(WriteSideTables(data, job.dataset, version, files.get(), target));
  // A checkpoint that is being written is of the version before, and in no list yet.
  std::set<std::string> wanted = VersionsWanted(files.get(), checkpoints);
  wanted.insert(before);
  // What else somebody has put there is not listed.
  std::set<std::string> listed = FilesOfModel(files.get(), target, kSavedInputs);
  std::set<std::string> kept = FilesOfVersions(listed, wanted);
  for (const std::string& other : SideTableVersions(files.get(), target)) {
    for (const std::string& name : FilesOfVersions(listed, {other})) listed.erase(name);
  }
  listed.erase(kSavedInputs.file);
  kept.insert(listed.begin(), listed.end());
  for (int i = 0; i < job.dataset.joins_size(); ++i) {
    kept.insert(SideTableFile(version, i, job.dataset.joins(i).path()));
  }
  const std::vector<std::string> names(kept.begin(), kept.end());
  manifest[kSideTables] = version;
  manifest["files"] = names;
  ASSIGN_OR_RETURN(manifest["checksums"], ChecksumsOf(target, names));
  RETURN_IF_ERROR(files->WriteAtomically(path, TextOf(manifest)));
  RemoveUnlisted(files.get(), target);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<InputsToTake>> FindInputsToTake(env::FileSystem* files,
                                                             const std::string& of_job,
                                                             const std::string& own,
                                                             const std::string& kept) {
  const auto read = [files](const std::string& directory) {
    return files->Read(absl::StrCat(directory, "/", kSavedInputs.file));
  };
  InputsToTake take;
  ASSIGN_OR_RETURN(take.manifest, read(of_job));
  const auto there = read(own);
  if (there.ok() && *there == take.manifest) return std::nullopt;
  take.of_job = FilesBelow(of_job);
  nlohmann::ordered_json job = ParseInputs(take.manifest);
  const nlohmann::ordered_json before = ParseInputs(there.ok() ? *there : "");
  const std::set<std::string> listed = job.is_null() ? std::set<std::string>() : ListedIn(job);
  const auto stays = [&listed, &job](const std::string& name) {
    return name == kSavedInputs.file || (!job.is_null() && listed.count(name) == 0);
  };
  take.of_job.erase(std::remove_if(take.of_job.begin(), take.of_job.end(), stays),
                    take.of_job.end());
  // A manifest that is damaged is told by whoever reads it.
  if (job.is_null() || before.is_null()) return take;
  if (OnlyListedTables(before, listed) == OnlyListedTables(job, listed)) return std::nullopt;
  const std::set<std::string> listed_before = ListedIn(before);
  for (const std::string& version : VersionsWanted(files, kept)) {
    if (!FilesOfVersions(listed, {version}).empty()) continue;
    for (const std::string& name : FilesOfVersions(listed_before, {version})) {
      if (!CheckModelFile(own, name, kSavedInputs).ok()) continue;
      job["files"].push_back(name);
      job["checksums"][name] = before["checksums"][name];
      take.of_own.push_back(name);
    }
  }
  if (!take.of_own.empty()) take.manifest = TextOf(job);
  return take;
}

namespace {

// The job's data, as the state of a job in a checkpoint and its inputs name them; "none".
std::string FingerprintOf(const nlohmann::json& json) {
  const auto found = json.is_object() ? json.find(kFingerprint) : json.end();
  return json.is_object() && found != json.end() ? found->dump() : std::string("none");
}

nlohmann::json JobStateOf(const checkpoint::Manifest& checkpoint) {
  return nlohmann::json::parse(checkpoint.job_state, nullptr, false);
}

bool IsOfJobFile(const checkpoint::Manifest& checkpoint) {
  return FingerprintOf(JobStateOf(checkpoint)) != "none";
}

}  // namespace

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
  const std::string wanted = FingerprintOf(*manifest),
                    found = FingerprintOf(JobStateOf(checkpoint));
  return wanted == found ? absl::OkStatus() : other("the data", wanted, found);
}

absl::StatusOr<job::JobSpec> ReadKeptJob(const std::string& directory, const ManifestKind& kind,
                                         const std::vector<std::string>& overrides) {
  ASSIGN_OR_RETURN(const SavedModelInfo info, ReadModelInfo(directory, kind));
  std::vector<std::string> all = info.overrides;
  all.insert(all.end(), overrides.begin(), overrides.end());
  ASSIGN_OR_RETURN(job::JobSpec job,
                   job::ParseKeptJob(info.job_text, absl::StrCat(directory, "/job.yaml"),
                                     std::filesystem::path(info.job_file).parent_path().string(),
                                     all, job::JobUse::kEvaluation));
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
  if (absl::IsNotFound(fit) || absl::IsFailedPrecondition(fit)) {
    // Checkpoints of programs have no inputs.
    if (IsOfJobFile(manifest)) LogWarning("rows have no names, but their ids: ", fit.message());
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(fit);
  ASSIGN_OR_RETURN(const job::JobSpec job, ReadKeptJob(inputs, kSavedInputs));
  source->UseVocabularies(inputs,
                          [&job](const std::string& table) { return VocabularyOf(job, table); });
  return absl::OkStatus();
}

}  // namespace coxswain::model
