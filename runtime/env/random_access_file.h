// A file that is read in ranges: for files that may be larger than memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace coxswain::env {

// A range that was asked for and comes meanwhile. Gone before Wait, it is let go.
// Thread model: one thread at a time.
class PendingRead {
 public:
  virtual ~PendingRead() = default;
  // Waits for all of the range, once; `out` has room for it. Errors: those of the file's Read.
  virtual absl::Status Wait(void* out) = 0;
};

// Thread-safe: a read has no position. The file must not change meanwhile.
class RandomAccessFile {
 public:
  // A file of this machine. Errors: NotFound; InvalidArgument for what is no regular file;
  // PermissionDenied; ResourceExhausted: too many open files; Internal.
  static absl::StatusOr<std::unique_ptr<RandomAccessFile>> Open(const std::string& path);
  virtual ~RandomAccessFile() = default;
  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;

  const std::string& path() const { return path_; }
  // When it was opened; the time is that of the last change, in nanoseconds since 1970.
  uint64_t size() const { return size_; }
  int64_t modified_ns() const { return modified_ns_; }
  // All of the range or an error: OutOfRange past the end, DataLoss when it became shorter or the
  // disk cannot read it.
  absl::Status Read(uint64_t offset, void* out, size_t bytes) const;
  // Asks for a range, without waiting for it; several may be on their way. Null where that gains
  // nothing, as of files of this machine, and where Read would tell what is wrong.
  virtual std::unique_ptr<PendingRead> Start(uint64_t offset, size_t bytes) const {
    (void)offset, (void)bytes;
    return nullptr;
  }

 protected:
  RandomAccessFile(std::string path, uint64_t size, int64_t modified_ns)
      : size_(size), modified_ns_(modified_ns), path_(std::move(path)) {}

 private:
  // The range is one of the file.
  virtual absl::Status ReadRange(uint64_t offset, char* out, size_t bytes) const = 0;

  const uint64_t size_;
  const int64_t modified_ns_;
  const std::string path_;
};

}  // namespace coxswain::env
