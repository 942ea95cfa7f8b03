#include "runtime/data/stream/followed_places.h"

#include <fnmatch.h>

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "runtime/base/status.h"
#include "runtime/data/file_list.h"
#include "runtime/data/remote_files.h"
#include "runtime/data/stream/file_identity.h"
#include "runtime/env/remote_path.h"

namespace coxswain::data {
namespace {

namespace fs = std::filesystem;

constexpr char kWildcards[] = "*?[";

bool IsPattern(const std::string& path) {
  return path.find_first_of(kWildcards) != std::string::npos;
}

absl::Status NoDirectory(const std::string& path, const std::string& directory) {
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": dataset.follow: wanted a directory that is there, or a pattern of names in one; ",
      directory, " is none"));
}

class LocalPlace final : public FollowedPlace {
 public:
  explicit LocalPlace(const std::string& path) : path_(path) {}

  absl::Status Check() const override {
    std::error_code ignored;
    const std::string directory = Directory();
    return fs::is_directory(directory, ignored) ? absl::OkStatus() : NoDirectory(path_, directory);
  }

  absl::StatusOr<bool> Has(const std::string& name) const override {
    std::error_code ignored;
    return fs::exists(fs::path(Directory()) / name, ignored);
  }

  absl::StatusOr<std::vector<ListedFile>> List() const override {
    std::vector<ListedFile> listed;
    const absl::StatusOr<std::vector<std::string>> files = ListFiles(path_);
    if (absl::IsNotFound(files.status())) return listed;
    // That may pass, as all that keeps a directory from being read for a while.
    if (absl::IsPermissionDenied(files.status())) {
      return absl::UnavailableError(files.status().message());
    }
    RETURN_IF_ERROR(files.status());
    std::error_code error;
    // The directory itself: it is not there at the moment.
    if (!IsPattern(path_) && !fs::is_directory(path_, error)) {
      return absl::UnavailableError(absl::StrCat(path_, ": the directory is not there"));
    }
    for (const std::string& file : *files) {
      const auto bytes = fs::file_size(file, error);
      const auto modified = ModifiedNs(file);
      if (error || !modified.ok()) continue;  // it has gone meanwhile
      listed.push_back({file, static_cast<int64_t>(bytes), *modified});
    }
    return listed;
  }

  bool remote() const override { return false; }

 private:
  std::string Directory() const {
    std::error_code ignored;
    if (!IsPattern(path_) || fs::is_directory(path_, ignored)) return path_;
    const std::string parent = fs::path(path_).parent_path().string();
    return parent.empty() ? "." : parent;
  }

  const std::string path_;
};

// A directory of a store is there as soon as something is in it.
class StorePlace final : public FollowedPlace {
 public:
  explicit StorePlace(absl::string_view path) : path_(absl::StripSuffix(path, "/")) {}

  absl::Status Check() const override {
    const std::string directory = Directory();
    if (IsPattern(directory) || !NamesBucket(directory)) return NoDirectory(path_, directory);
    ASSIGN_OR_RETURN(const std::optional<RemoteEntry> there, FindRemote(directory));
    if (there) return there->is_directory ? absl::OkStatus() : NoDirectory(path_, directory);
    const std::string bucket = directory.substr(0, directory.find('/', env::kS3.size()));
    ASSIGN_OR_RETURN(const std::optional<RemoteEntry> store, FindRemote(bucket));
    return store ? absl::OkStatus() : NoDirectory(path_, bucket);
  }

  absl::StatusOr<bool> Has(const std::string& name) const override {
    ASSIGN_OR_RETURN(const std::optional<RemoteEntry> there,
                     FindRemote(absl::StrCat(Directory(), "/", name)));
    return there && !there->is_directory;
  }

  absl::StatusOr<std::vector<ListedFile>> List() const override {
    std::vector<ListedFile> listed;
    absl::StatusOr<std::vector<RemoteEntry>> files = ListRemoteDirectory(Directory());
    if (absl::IsNotFound(files.status())) return listed;
    RETURN_IF_ERROR(files.status());
    for (RemoteEntry& file : *files) {
      const bool matches =
          !IsPattern(path_) || fnmatch(path_.c_str(), file.address.c_str(), FNM_PERIOD) == 0;
      if (matches) listed.push_back({std::move(file.address), file.bytes, file.modified_ns});
    }
    return listed;
  }

  bool remote() const override { return true; }

 private:
  std::string Directory() const {
    return IsPattern(path_) ? path_.substr(0, path_.rfind('/')) : path_;
  }
  static bool NamesBucket(const std::string& address) {
    return address.size() > env::kS3.size() && address[env::kS3.size()] != '/';
  }

  const std::string path_;
};

}  // namespace

std::unique_ptr<FollowedPlace> MakeFollowedPlace(const std::string& path) {
  if (env::IsRemotePath(path)) return std::make_unique<StorePlace>(path);
  return std::make_unique<LocalPlace>(path);
}

}  // namespace coxswain::data
