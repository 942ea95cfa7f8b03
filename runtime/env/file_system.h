// Files, as services use them. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coxswain/tensor.h"

namespace coxswain::env {

// A file being written. Errors of every call: ResourceExhausted when the disk is full,
// PermissionDenied, Internal; the message names the path and the system's reason.
class WritableFile {
 public:
  virtual ~WritableFile() = default;  // closes without syncing
  virtual absl::Status Append(const void* data, size_t bytes) = 0;
  virtual absl::Status Sync() = 0;
  virtual absl::Status Close() = 0;
};

// Keeps others out while it lives. The system takes it from a process that ends, however it ends.
class FileLock {
 public:
  virtual ~FileLock() = default;  // unlocks; the file stays, empty
  // False once somebody has taken it over.
  virtual bool Held() = 0;
};

constexpr size_t kDirectBlock = 4096;

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // Errors: NotFound when there is no such file.
  virtual absl::StatusOr<std::string> Read(const std::string& path) = 0;
  // The whole file, mapped where the system can: for files that may be large. It must not change
  // meanwhile. Errors: NotFound; DataLoss when the disk cannot read it.
  virtual absl::StatusOr<Buffer> Map(const std::string& path) = 0;
  // How many bytes a file has; reads none. Errors: NotFound.
  virtual absl::StatusOr<uint64_t> Size(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  // As Create, for a large file that nobody reads soon: past the system's cache, where there is a
  // way; without a copy where memory and place in the file are multiples of kDirectBlock. What was
  // appended last may be on its way to the system until Sync or Close.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> CreateLarge(const std::string& path) {
    return Create(path);
  }
  // Writes `path` so that readers see the old content or the new one, never a part: a temporary
  // file, synced and renamed, with the mode of the one that was there. See unfinished_files.h.
  virtual absl::Status WriteAtomically(const std::string& path, absl::string_view content) = 0;
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // Two paths change places, in one step. Errors: NotFound; Unimplemented where there is no such
  // step, and nothing has changed.
  virtual absl::Status Exchange(const std::string& a, const std::string& b) {
    return absl::UnimplementedError("cannot exchange " + a + " and " + b);
  }
  // A second name for a file: its content is there once, and goes with the last name. Lasts once
  // the directory is synced. Errors: NotFound; others where it cannot be done, as across file
  // systems.
  virtual absl::Status Link(const std::string& from, const std::string& to) = 0;
  // What was made in a directory or linked into it lasts.
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  virtual absl::Status MakeDirs(const std::string& path) = 0;
  virtual absl::StatusOr<std::vector<std::string>> List(
      const std::string& path) = 0;  // names, sorted
  virtual absl::Status RemoveAll(const std::string& path) = 0;
  virtual bool Exists(const std::string& path) = 0;
  // Locks the file, which is made where it is not there, and writes `content` into it, for those
  // who do not get the lock. Errors: Unavailable when another has it, in this process or in another
  // one; Unimplemented where files have no locks.
  virtual absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path,
                                                         absl::string_view content) = 0;
  // The same, and whoever has the lock loses it.
  virtual absl::StatusOr<std::unique_ptr<FileLock>> TakeLock(const std::string& path,
                                                             absl::string_view content) = 0;
};

std::unique_ptr<FileSystem> NewRealFileSystem();

}  // namespace coxswain::env
