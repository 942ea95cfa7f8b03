#include "runtime/data/stream/cache_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/env/system_error.h"

namespace coxswain::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kDigits = 16;                  // of an index's name
constexpr int64_t kHalfWrittenSeconds = 86400;  // age of a half-written file that no process is
                                                // writing any more

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool BeginsWithDigits(absl::string_view name) {
  const auto hexadecimal = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return name.size() > kDigits && std::all_of(name.begin(), name.begin() + kDigits, hexadecimal);
}

struct Index {
  int64_t used = 0, bytes = 0;
  std::string path;
};

}  // namespace

std::string CacheDirectory(const proto::StreamOptions& options) {
  if (!options.cache_directory().empty()) return options.cache_directory();
  if (const std::string cache = Variable("XDG_CACHE_HOME"); !cache.empty()) {
    return cache + "/coxswain";
  }
  const std::string home = Variable("HOME");
  return home.empty() ? home : home + "/.cache/coxswain";
}

absl::Status MakeOwnDirectory(const std::string& directory) {
  std::error_code error;
  if (fs::exists(directory, error)) return absl::OkStatus();
  fs::create_directories(fs::path(directory).parent_path(), error);
  if (!error && mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return env::SystemError(errno, "make directory", directory);
  }
  return error ? env::SystemError(error.value(), "make directory", directory) : absl::OkStatus();
}

absl::Status MakePrivateDirectory(const std::string& directory) {
  RETURN_IF_ERROR(MakeOwnDirectory(fs::path(directory).parent_path().string()));
  RETURN_IF_ERROR(MakeOwnDirectory(directory));
  struct stat found {};
  if (lstat(directory.c_str(), &found) != 0) {
    return env::SystemError(errno, "read", directory);
  }
  if (S_ISDIR(found.st_mode) && found.st_uid == geteuid() && (found.st_mode & 077) == 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      directory, ": wanted a directory of this user's alone (mode 0700), found ",
      !S_ISDIR(found.st_mode)     ? "something else"
      : found.st_uid != geteuid() ? "another user's"
                                  : absl::StrFormat("mode %04o", found.st_mode & 07777)));
}

absl::Status CheckNotOfOthers(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) return env::SystemError(errno, "read", path);
  if (found.st_uid != geteuid() && found.st_uid != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": it is another user's (", found.st_uid, ")"));
  }
  const bool sticky = S_ISDIR(found.st_mode) && (found.st_mode & S_ISVTX) != 0;
  // Its group was given that on purpose, or is the user's own.
  if ((found.st_mode & S_IWOTH) == 0 || sticky) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("%s: others can write there (mode %04o)", path, found.st_mode & 07777));
}

void TidyIndexes(const std::string& directory, int64_t most_files, int64_t most_bytes) {
  std::vector<Index> indexes;
  const int64_t now = std::time(nullptr);
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string path = it->path().string(), name = it->path().filename().string();
    struct stat file {};
    if (!BeginsWithDigits(name) || lstat(path.c_str(), &file) != 0) continue;
    if (!S_ISREG(file.st_mode) || file.st_uid != geteuid()) continue;
    const absl::string_view rest = absl::string_view(name).substr(kDigits);
    if (rest == ".index") {
      indexes.push_back({file.st_mtim.tv_sec, file.st_size, path});
    } else if (absl::StartsWith(rest, ".index.") && absl::EndsWith(rest, ".tmp") &&
               file.st_mtim.tv_sec + kHalfWrittenSeconds < now) {
      unlink(path.c_str());
    }
  }
  std::sort(indexes.begin(), indexes.end(),
            [](const Index& a, const Index& b) { return a.used > b.used; });
  int64_t bytes = 0, files = 0;
  for (const Index& index : indexes) {
    bytes += index.bytes;
    if (++files == 1 || (files <= most_files && bytes <= most_bytes)) continue;
    if (unlink(index.path.c_str()) == 0) LogInfo("data set: an old index is removed: ", index.path);
  }
}

void MarkUsed(const std::string& path) {
  utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

}  // namespace coxswain::data
