// Checks before training that a model's directory can be replaced.
#include "coordinator/model/model_directory.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/env/file_system.h"
#include "runtime/env/replace_directory.h"
#include "runtime/env/system_error.h"

namespace coxswain::model {
namespace {

namespace fs = std::filesystem;

constexpr size_t kProbeBytes = 64 << 10;
constexpr char kProbe[] = "probe";

absl::Status Stays(const std::string& directory, absl::string_view why,
                   const ManifestKind& kind = kSavedModel) {
  return absl::FailedPreconditionError(absl::StrCat(
      directory, " ", why, "; name a directory that is empty or not there yet, or one with a ",
      kind.what, " and nothing else in it"));
}

// Whether `path` is a place where a file system is mounted: it cannot be renamed.
bool IsMountPoint(const std::string& path) {
  struct statx info {};
  if (statx(AT_FDCWD, path.c_str(), 0, STATX_BASIC_STATS, &info) == 0 &&
      (info.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0) {
    return (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
  }
  struct stat here {
  }, above{};
  return stat(path.c_str(), &here) == 0 && stat((path + "/..").c_str(), &above) == 0 &&
         here.st_dev != above.st_dev;
}

// Whether the program works in `path` or below it.
bool IsWorkingDirectory(const std::string& path) {
  std::error_code error;
  const fs::path here = fs::current_path(error);
  if (error) return false;
  const fs::path wanted(path);
  return std::mismatch(wanted.begin(), wanted.end(), here.begin(), here.end()).first ==
         wanted.end();
}

// Whether `directory` can be renamed. Renaming it over a directory that is not empty always fails;
// the error tells whether that was the only reason.
absl::Status TryRename(const std::string& directory, const std::string& not_empty) {
  if (rename(directory.c_str(), not_empty.c_str()) == 0) {
    if (rename(not_empty.c_str(), directory.c_str()) == 0) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(directory, " is now ", not_empty));
  }
  if (errno == ENOTEMPTY || errno == EEXIST) return absl::OkStatus();
  if (errno == EBUSY) return Stays(directory, "is in use by the system and cannot be replaced");
  return env::SystemError(errno, "replace", directory);
}

// Writes a small file beside the target, as saving will.
absl::Status TryWriting(env::FileSystem* files, const std::string& target,
                        const std::string& temporary) {
  const std::string path = absl::StrCat(temporary, "/", kProbe);
  ASSIGN_OR_RETURN(auto file, files->Create(path));
  const std::string bytes(kProbeBytes, 'x');
  RETURN_IF_ERROR(file->Append(bytes.data(), bytes.size()));
  RETURN_IF_ERROR(file->Sync());
  RETURN_IF_ERROR(file->Close());
  return files->Exists(target) ? TryRename(target, temporary) : absl::OkStatus();
}

std::string Megabytes(double bytes) {
  return absl::StrCat(static_cast<int64_t>(std::max(1.0, bytes / 1e6)), " MB");
}

absl::Status CheckRoom(const std::string& target, int64_t bytes) {
  fs::path there = fs::path(target).parent_path();
  std::error_code ignored;
  while (!fs::exists(there, ignored) && there.has_relative_path()) there = there.parent_path();
  struct statvfs disk {};
  // Some file systems do not report it.
  if (statvfs(there.c_str(), &disk) != 0 || disk.f_blocks == 0) return absl::OkStatus();
  const double free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  if (free >= static_cast<double>(bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(there.string(), " has ", free < 1e6 ? "less than 1 MB" : Megabytes(free),
                   " of free space, and the model needs ", Megabytes(static_cast<double>(bytes))));
}

}  // namespace

std::set<std::string> FilesOfModel(env::FileSystem* files, const std::string& directory,
                                   const ManifestKind& kind) {
  const auto text = files->Read(absl::StrCat(directory, "/", kind.file));
  if (!text.ok()) return {};
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  if (!json.is_object() || json.value("format", nlohmann::json()) != kind.format) return {};
  std::set<std::string> names = {kind.file, "job.yaml"};
  const auto add = [&names](const nlohmann::json& name) {
    if (name.is_string()) names.insert(name.get<std::string>());
  };
  if (const auto list = json.find("files"); list != json.end() && list->is_array()) {
    for (const auto& name : *list) add(name);
    return names;
  }
  // Models of version 0.1 do not list their files.
  if (const auto list = json.find("variables"); list != json.end() && list->is_array()) {
    for (const auto& variable : *list) {
      if (variable.is_object()) add(variable.value("file", nlohmann::json()));
    }
  }
  const auto words = files->List(absl::StrCat(directory, "/vocabulary"));
  if (!words.ok()) return names;
  for (const std::string& name : *words) {
    if (absl::EndsWith(name, ".txt")) names.insert(absl::StrCat("vocabulary/", name));
  }
  return names;
}

absl::StatusOr<std::string> ResolveModelDirectory(const std::string& directory) {
  std::error_code error;
  fs::path path = fs::absolute(directory, error).lexically_normal();
  if (error) return env::SystemError(error.value(), "find", directory);
  if (path.filename().empty()) path = path.parent_path();  // "model/"
  if (fs::is_symlink(path, error) && !fs::exists(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat(directory, " is a link to nothing"));
  }
  const fs::path whole = fs::weakly_canonical(path, error);
  return error ? path.string() : whole.string();
}

absl::Status CheckReplaceable(const std::string& directory, const ManifestKind& kind) {
  std::error_code error;
  const fs::file_status status = fs::status(directory, error);
  if (!fs::exists(status)) return absl::OkStatus();
  if (!fs::is_directory(status)) return Stays(directory, "is no directory", kind);
  const auto files = env::NewRealFileSystem();
  const std::set<std::string> known = FilesOfModel(files.get(), directory, kind);
  for (fs::recursive_directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().lexically_relative(directory).string();
    std::error_code ignored;
    const bool folder = it->is_directory(ignored) && !it->is_symlink(ignored);
    // A folder counts as its content.
    if (folder && (name == "vocabulary" || std::any_of(known.begin(), known.end(), [&](auto& k) {
                     return absl::StartsWith(k, name + "/");
                   }))) {
      continue;
    }
    if (!folder && known.count(name) > 0) continue;
    return Stays(directory,
                 known.empty() ? absl::StrCat("is not a ", kind.what, ": it holds ", name)
                               : absl::StrCat("holds ", name, " beside a ", kind.what),
                 kind);
  }
  return error ? env::SystemError(error.value(), "list", directory) : absl::OkStatus();
}

bool IsSavedFile(const std::string& name) {
  for (const char* folder : {"vocabulary/", "history/", "joined/", "slots/"}) {
    if (absl::StartsWith(name, folder)) return true;
  }
  if (absl::StrContains(name, '/')) return false;
  if (absl::EndsWith(name, ".safetensors")) return true;
  for (const char* whole :
       {kSavedModel.file, kSavedInputs.file, "job.yaml", "features.json", kProbe}) {
    // Such a file is written under another name first.
    const bool begun =
        absl::StartsWith(name, absl::StrCat(whole, ".")) && absl::EndsWith(name, ".tmp");
    if (name == whole || begun) return true;
  }
  return false;
}

absl::Status CheckCanSave(const std::string& directory, int64_t bytes) {
  ASSIGN_OR_RETURN(const std::string target, ResolveModelDirectory(directory));
  if (IsWorkingDirectory(target)) {
    return Stays(directory, "is the directory that this program works in, or above it");
  }
  RETURN_IF_ERROR(CheckReplaceable(target));
  if (IsMountPoint(target)) {
    return absl::FailedPreconditionError(
        absl::StrCat(directory,
                     " is a mount point, which cannot be replaced: name a directory in "
                     "it, such as ",
                     target, "/model"));
  }
  // Directories above that were created for the test are removed too.
  std::vector<fs::path> made;
  std::error_code error;
  for (fs::path above = fs::path(target).parent_path(); !fs::exists(above, error);
       above = above.parent_path()) {
    made.push_back(above);
  }
  const auto files = env::NewRealFileSystem();
  const auto temporary = env::MakeDirectoryBeside(files.get(), target, IsSavedFile);
  absl::Status status = temporary.status();
  if (temporary.ok()) {
    status = TryWriting(files.get(), target, temporary->path);
    const absl::Status removed = files->RemoveAll(temporary->path);
    if (status.ok()) status = removed;
  }
  for (const fs::path& above : made) fs::remove(above, error);
  RETURN_IF_ERROR(status);
  return CheckRoom(target, bytes);
}

}  // namespace coxswain::model
