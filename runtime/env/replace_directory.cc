#include "runtime/env/replace_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <random>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/env/cut_name.h"
#include "runtime/env/keep_access.h"
#include "runtime/env/system_error.h"

namespace coxswain::env {
namespace {

namespace fs = std::filesystem;

constexpr char kSuffix[] = ".tmp";
constexpr size_t kDigits = 16;
constexpr size_t kBehind = 1 + kDigits + sizeof(kSuffix) - 1;  // what NewNameBeside adds

std::string LockOf(const std::string& directory) {
  return absl::StrCat(directory, "/", kBeingWritten);
}

// The lock's file goes last, so that what an interruption leaves is known again.
absl::Status RemoveLocked(FileSystem* files, const std::string& directory) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files->List(directory));
  for (const std::string& name : names) {
    if (name == kBeingWritten) continue;
    RETURN_IF_ERROR(files->RemoveAll(absl::StrCat(directory, "/", name)));
  }
  return files->RemoveAll(directory);
}

void Remove(FileSystem* files, const std::string& old) {
  const auto lock = files->Lock(LockOf(old), "");  // or none, as on a full disk
  const absl::Status removed = RemoveLocked(files, old);
  if (!removed.ok())
    LogWarning("what is of no use any more stays in ", old, ": ", removed.message());
}

// Whether NewNameBeside may have made it for a target of this name.
bool IsNameBeside(absl::string_view name, absl::string_view target) {
  return absl::ConsumePrefix(&name, CutName(std::string(target), kBehind)) &&
         absl::ConsumePrefix(&name, ".") && absl::ConsumeSuffix(&name, kSuffix) &&
         name.size() == kDigits && std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isxdigit(static_cast<unsigned char>(c));
         });
}

// Whether `path` is a directory, and no link to one, of this user.
bool IsOwnDirectory(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid();
}

bool HoldsOnlyParts(const std::string& directory, const IsPart& is_part) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    const fs::file_status status = it->symlink_status(error);
    if (error) return false;
    if (fs::is_directory(status)) continue;
    const std::string name = it->path().lexically_relative(directory).string();
    if (!fs::is_regular_file(status)) return false;
    if (name != kBeingWritten && is_part != nullptr && !is_part(name)) return false;
  }
  return !error;
}

// Those that are locked no more: who wrote them was killed.
void RemoveLeftovers(FileSystem* files, const std::string& target, const IsPart& is_part) {
  const fs::path path(target);
  const std::string parent = path.has_parent_path() ? path.parent_path().string() : ".";
  const auto names = files->List(parent);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!IsNameBeside(name, path.filename().string())) continue;
    const std::string left = (fs::path(parent) / name).string();
    if (!IsOwnDirectory(left)) continue;
    if (!files->Exists(LockOf(left))) continue;  // not left by MakeDirectoryBeside
    const auto lock = files->Lock(LockOf(left), "");
    if (!lock.ok() || !HoldsOnlyParts(left, is_part)) continue;
    const absl::Status removed = RemoveLocked(files, left);
    if (!removed.ok()) LogWarning("what was left of a save stays: ", removed.message());
  }
}

// Two renames, where one step is not to be had.
absl::Status ReplaceBySteps(FileSystem* files, const std::string& made, const std::string& target,
                            const std::function<absl::Status(const std::string&)>& may_go) {
  const std::string old = NewNameBeside(target);
  RETURN_IF_ERROR(files->Rename(target, old));
  absl::Status renamed = may_go(old);
  if (renamed.ok()) renamed = files->Rename(made, target);
  if (renamed.ok()) {
    Remove(files, old);
    return renamed;
  }
  const absl::Status back = files->Rename(old, target);
  if (back.ok()) return renamed;
  return absl::InternalError(absl::StrCat(renamed.message(), "; what was at ", target,
                                          " is now at ", old, ": ", back.message()));
}

}  // namespace

std::string NewNameBeside(const std::string& target) {
  std::random_device random;
  return absl::StrFormat("%s.%08x%08x%s", CutName(target, kBehind), random(), random(), kSuffix);
}

absl::StatusOr<NewDirectory> MakeDirectoryBeside(FileSystem* files, const std::string& target,
                                                 const IsPart& is_part) {
  const fs::path parent = fs::path(target).parent_path();
  if (!parent.empty()) RETURN_IF_ERROR(files->MakeDirs(parent.string()));
  RemoveLeftovers(files, target, is_part);
  constexpr int kAttempts = 100;
  NewDirectory made;
  std::error_code error;
  bool there = false;
  for (int attempt = 0; attempt < kAttempts && !there && !error; ++attempt) {
    made.path = NewNameBeside(target);
    there = fs::create_directory(made.path, error);
  }
  if (!there) return SystemError(error ? error.value() : EEXIST, "create directory", made.path);
  // Before there is anything to read in it. Its owner must write, whatever it will be.
  KeepAccess(target, made.path, S_IRWXU);
  auto lock = files->Lock(LockOf(made.path), "");
  if (lock.ok()) {
    made.lock = *std::move(lock);
  } else {
    files->RemoveAll(LockOf(made.path)).IgnoreError();
  }
  return made;
}

absl::Status ReplaceDirectory(FileSystem* files, const std::string& made, const std::string& target,
                              const std::function<absl::Status(const std::string&)>& may_go) {
  RETURN_IF_ERROR(may_go(target));
  KeepAccess(target, made);
  const auto there = files->List(target);
  // A rename replaces what is empty, and fails where something came meanwhile.
  if (absl::IsNotFound(there.status()) || (there.ok() && there->empty())) {
    return files->Rename(made, target);
  }
  RETURN_IF_ERROR(there.status());
  const absl::Status exchanged = files->Exchange(made, target);
  if (absl::IsUnimplemented(exchanged)) return ReplaceBySteps(files, made, target, may_go);
  RETURN_IF_ERROR(exchanged);
  if (absl::Status refused = may_go(made); !refused.ok()) {
    const absl::Status back = files->Exchange(made, target);
    if (back.ok()) return refused;
    return absl::InternalError(absl::StrCat(refused.message(), "; what was at ", target,
                                            " is now at ", made, ": ", back.message()));
  }
  Remove(files, made);
  return absl::OkStatus();
}

absl::Status ReplaceDirectory(FileSystem* files, NewDirectory made, const std::string& target,
                              const std::function<absl::Status(const std::string&)>& may_go) {
  RETURN_IF_ERROR(files->RemoveAll(LockOf(made.path)));
  return ReplaceDirectory(files, made.path, target, may_go);
}

}  // namespace coxswain::env
