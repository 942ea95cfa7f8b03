// A file that is written beside the one it will replace, and what is left of such files when their
// process is killed: "<path>.<process>-<n>.tmp", of a long name only its begin.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/env/file_system.h"

namespace coxswain::env {

// The mode of files that this program makes: whoever may read and write them is for the umask to
// say, as where a group shares checkpoints.
inline constexpr mode_t kNewFile = 0666;

// The name.
std::string UnfinishedName(const std::string& path, pid_t process, uint64_t n);

// Removes those of `path` that nobody writes any more. Whoever writes one holds a lock (flock) on
// it until it is in its place, so the numbers of processes, which come again and are those of one
// machine, are not asked. Stays: what another user owns, what is no plain file (links are not
// followed), and everything where the file system has no locks.
void RemoveUnfinished(const std::string& path);

// A new, empty file of such a name, locked as said above. Who writes it opens path(), or writes to
// fd(). It goes with the object unless MoveTo has put it in its place. Not for several threads.
class UnfinishedFile {
 public:
  // Beside `path`, whatever is there. Errors: those of the file system.
  static absl::StatusOr<UnfinishedFile> Beside(const std::string& path);

  UnfinishedFile(UnfinishedFile&& other) noexcept;
  UnfinishedFile& operator=(UnfinishedFile&& other) = delete;
  ~UnfinishedFile();

  const std::string& path() const { return path_; }
  // Open for writing, until the object is gone.
  int fd() const { return fd_; }

  // Renames it.
  absl::Status MoveTo(FileSystem* files, const std::string& target);

 private:
  UnfinishedFile(std::string path, int fd);

  std::string path_;
  int fd_;  // has the lock; -1: moved from
  bool in_place_ = false;
};

}  // namespace coxswain::env
