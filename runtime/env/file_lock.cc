// By flock: the lock belongs to the open file, so that it goes with the process, also when that is
// killed. Network file systems that have locks hand them to all machines.
//
// Who takes a lock over puts a new file, which it has locked before, in the place of the old one.
// So a lock counts only as long as its file is the one at the path.
#include "runtime/env/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/env/system_error.h"

namespace coxswain::env {
namespace {

constexpr int kAttempts = 100;  // each means that somebody has just taken it over

class RealFileLock final : public FileLock {
 public:
  RealFileLock(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~RealFileLock() override {
    // Nobody shall be told of a holder who is gone.
    (void)!ftruncate(fd_, 0);
    close(fd_);
  }

  bool Held() override {
    struct stat mine {
    }, there{};
    // A file that cannot be looked at was taken by nobody.
    if (fstat(fd_, &mine) != 0 || stat(path_.c_str(), &there) != 0) return true;
    return mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
  }

  void set_path(std::string path) { path_ = std::move(path); }
  // For those who do not get the lock. They can do without, as on a disk that is full.
  void Write(absl::string_view content) {
    if (ftruncate(fd_, 0) != 0) return;
    (void)!pwrite(fd_, content.data(), content.size(), 0);
  }

 private:
  const int fd_;
  std::string path_;
};

// Takes `fd`. Errors: as FileSystem::Lock.
absl::StatusOr<std::unique_ptr<RealFileLock>> LockOpen(int fd, const std::string& path) {
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    const int error = errno;
    close(fd);
    if (error == EWOULDBLOCK) return absl::UnavailableError(absl::StrCat(path, " is locked"));
    if (error == EOPNOTSUPP || error == ENOSYS || error == EINVAL || error == ENOLCK) {
      return absl::UnimplementedError(absl::StrCat(path, ": the file system has no locks"));
    }
    return SystemError(error, "lock", path);
  }
  return std::make_unique<RealFileLock>(fd, path);
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileLock>> LockFile(const std::string& path,
                                                   absl::string_view content) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    // What another user left there may not be written, but locked, and then replaced.
    const bool foreign = fd < 0 && errno == EACCES;
    if (foreign) fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return SystemError(errno, "open", path);
    ASSIGN_OR_RETURN(auto lock, LockOpen(fd, path));
    if (!lock->Held()) continue;
    if (foreign) return LockNewFile(path, content);
    lock->Write(content);
    return lock;
  }
  return absl::UnavailableError(absl::StrCat(path, " changes its holder again and again"));
}

absl::StatusOr<std::unique_ptr<FileLock>> LockNewFile(const std::string& path,
                                                      absl::string_view content) {
  std::string temporary = absl::StrCat(path, ".XXXXXX");
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return SystemError(errno, "create", temporary);
  (void)fchmod(fd, 0644);
  auto lock = LockOpen(fd, temporary);
  if (lock.ok()) {
    (*lock)->Write(content);
    if (rename(temporary.c_str(), path.c_str()) == 0) {
      (*lock)->set_path(path);
      return std::unique_ptr<FileLock>(*std::move(lock));
    }
    lock = SystemError(errno, "rename", temporary);
  }
  unlink(temporary.c_str());
  return lock.status();
}

}  // namespace coxswain::env
