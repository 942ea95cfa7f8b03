#include "runtime/env/unfinished_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "runtime/base/status.h"
#include "runtime/env/cut_name.h"
#include "runtime/env/system_error.h"

namespace coxswain::env {
namespace {

namespace fs = std::filesystem;

// Of ".<process>-<n>.tmp", whatever the numbers are.
constexpr size_t kMostBehind = 36;

bool IsNumber(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
}

bool IsUnfinished(absl::string_view name, absl::string_view of) {
  if (!absl::ConsumePrefix(&name, of) || !absl::ConsumePrefix(&name, ".") ||
      !absl::ConsumeSuffix(&name, ".tmp")) {
    return false;
  }
  const std::vector<absl::string_view> numbers = absl::StrSplit(name, '-');
  return numbers.size() == 2 && IsNumber(numbers[0]) && IsNumber(numbers[1]);
}

void RemoveIfLeft(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;
  struct stat opened {
  }, there{};
  const bool left = fstat(fd, &opened) == 0 && S_ISREG(opened.st_mode) &&
                    opened.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0;
  // Its writer may have renamed it before the lock was free.
  if (left && lstat(path.c_str(), &there) == 0 && there.st_dev == opened.st_dev &&
      there.st_ino == opened.st_ino) {
    unlink(path.c_str());
  }
  close(fd);
}

constexpr int kTriesOfNames = 100;

// Locks a new file, for RemoveUnfinished, which may have taken it for a leftover before. False: it
// has, and removed it. A file system without locks is no error.
bool IsMine(int fd) {
  while (flock(fd, LOCK_EX) != 0 && errno == EINTR) {
  }
  struct stat info {};
  if (fstat(fd, &info) == 0 && info.st_nlink > 0) return true;
  errno = EEXIST;  // in case it was the last try
  return false;
}

}  // namespace

std::string UnfinishedName(const std::string& path, pid_t process, uint64_t n) {
  return absl::StrCat(CutName(path, kMostBehind), ".", process, "-", n, ".tmp");
}

void RemoveUnfinished(const std::string& path) {
  const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : ".";
  const std::string of = CutName(fs::path(path).filename().string(), kMostBehind);
  std::error_code error;
  std::vector<std::string> left;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (IsUnfinished(it->path().filename().string(), of)) left.push_back(it->path().string());
  }
  for (const std::string& one : left) RemoveIfLeft(one);
}

// A name of its own: several may write one file at the same time. One that somebody has put there,
// as a link to another file, is not used.
absl::StatusOr<UnfinishedFile> UnfinishedFile::Beside(const std::string& path) {
  static std::atomic<uint64_t> last{0};
  std::string name;
  int fd = -1;
  for (int tries = 0; fd < 0 && tries < kTriesOfNames; ++tries) {
    name = UnfinishedName(path, getpid(), ++last);
    fd = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kNewFile);
    if (fd < 0 && errno != EEXIST) break;
    if (fd >= 0 && !IsMine(fd)) close(std::exchange(fd, -1));
  }
  if (fd < 0) return SystemError(errno, "create", name);
  return UnfinishedFile(std::move(name), fd);
}

UnfinishedFile::UnfinishedFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

UnfinishedFile::UnfinishedFile(UnfinishedFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      in_place_(other.in_place_) {}

UnfinishedFile::~UnfinishedFile() {
  if (fd_ < 0) return;
  if (!in_place_) unlink(path_.c_str());
  close(fd_);
}

absl::Status UnfinishedFile::MoveTo(FileSystem* files, const std::string& target) {
  RETURN_IF_ERROR(files->Rename(path_, target));
  in_place_ = true;
  return absl::OkStatus();
}

}  // namespace coxswain::env
