#include "runtime/data/stream/followed_files.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/file_list.h"
#include "runtime/data/stream/file_identity.h"

namespace coxswain::data {
namespace {

namespace fs = std::filesystem;

bool IsPattern(const std::string& path) { return path.find_first_of("*?[") != std::string::npos; }

// Where files come to.
std::string DirectoryOf(const std::string& path) {
  std::error_code ignored;
  if (!IsPattern(path) || fs::is_directory(path, ignored)) return path;
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace

bool HasWholeName(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  return !name.empty() && name[0] != '.' && name[0] != '_' && !absl::EndsWith(name, ".tmp");
}

FollowedFiles::FollowedFiles(std::vector<std::string> paths, std::string end)
    : paths_(std::move(paths)), end_(std::move(end)) {}

absl::Status FollowedFiles::Check() const {
  for (const std::string& path : paths_) {
    std::error_code ignored;
    const std::string directory = DirectoryOf(path);
    if (fs::is_directory(directory, ignored)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": dataset.follow: wanted a directory that is there, or a pattern of names in one; ",
        directory, " is none"));
  }
  return absl::OkStatus();
}

void FollowedFiles::Take(const FollowedFile& file) { taken_[file.path] = file.identity; }

bool FollowedFiles::Ended() const {
  if (end_.empty()) return false;
  return std::all_of(paths_.begin(), paths_.end(), [this](const std::string& path) {
    std::error_code ignored;
    return fs::exists(fs::path(DirectoryOf(path)) / end_, ignored);
  });
}

absl::StatusOr<std::vector<std::string>> FollowedFiles::List() const {
  std::vector<std::string> all;
  for (const std::string& path : paths_) {
    absl::StatusOr<std::vector<std::string>> files = ListFiles(path);
    if (absl::IsNotFound(files.status())) continue;
    RETURN_IF_ERROR(files.status());
    std::error_code ignored;
    // The directory itself: it is not there at the moment.
    if (!IsPattern(path) && !fs::is_directory(path, ignored)) {
      return absl::UnavailableError(absl::StrCat(path, ": the directory is not there"));
    }
    for (std::string& file : *files) {
      if (HasWholeName(file)) all.push_back(std::move(file));
    }
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

absl::Status FollowedFiles::CheckTaken(const std::string& path,
                                       proto::IndexedFile* identity) const {
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  const bool there = !error;
  const auto modified = ModifiedNs(path);
  if (!there || !modified.ok()) return absl::OkStatus();  // it has gone meanwhile
  if (static_cast<int64_t>(bytes) == identity->bytes() && *modified == identity->modified_ns()) {
    return absl::OkStatus();
  }
  const absl::Status same = CheckUnchanged(path, *identity, /*same_machine=*/false);
  if (same.ok()) {
    identity->set_modified_ns(*modified);  // it was only touched
    return same;
  }
  if (!absl::IsFailedPrecondition(same)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(same.message(),
                   "; with dataset.follow a file has all its rows when it gets its name (write "
                   "it as NAME.tmp and rename it), and new rows go into new files"));
}

absl::StatusOr<FollowedFiles::Look> FollowedFiles::LookForNew() {
  Look look;
  look.ended = Ended();
  ASSIGN_OR_RETURN(const std::vector<std::string> all, List());
  for (const std::string& path : all) {
    if (const auto taken = taken_.find(path); taken != taken_.end()) {
      RETURN_IF_ERROR(CheckTaken(path, &taken->second));
      continue;
    }
    absl::StatusOr<proto::IndexedFile> identity = IdentifyFile(path);
    if (absl::IsNotFound(identity.status())) continue;  // it has gone meanwhile
    RETURN_IF_ERROR(identity.status());
    look.files.push_back({path, *std::move(identity)});
  }
  std::sort(look.files.begin(), look.files.end(), [](const auto& a, const auto& b) {
    return std::pair(a.identity.modified_ns(), a.path) <
           std::pair(b.identity.modified_ns(), b.path);
  });
  for (const FollowedFile& file : look.files) Take(file);
  return look;
}

}  // namespace coxswain::data
