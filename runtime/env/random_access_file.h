// A file that is read in ranges: for files that may be larger than memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace coxswain::env {

// Thread-safe: a read has no position. The file must not change meanwhile.
class RandomAccessFile {
 public:
  // Errors: NotFound; InvalidArgument for what is no regular file; PermissionDenied;
  // ResourceExhausted: too many open files; Internal.
  static absl::StatusOr<std::unique_ptr<RandomAccessFile>> Open(const std::string& path);
  ~RandomAccessFile();
  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  // when it was opened
  // All of the range or an error: OutOfRange past the end, DataLoss when it became shorter or the
  // disk cannot read it.
  absl::Status Read(uint64_t offset, void* out, size_t bytes) const;

 private:
  RandomAccessFile(int fd, uint64_t size, std::string path)
      : fd_(fd), size_(size), path_(std::move(path)) {}

  const int fd_;
  const uint64_t size_;
  const std::string path_;
};

}  // namespace coxswain::env
