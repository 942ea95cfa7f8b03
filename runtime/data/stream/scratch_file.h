// Files for what does not fit into memory while something is made. They have no name, so nothing of
// them is left, whatever becomes of the process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "protos/dataset.pb.h"

namespace coxswain::data {

// Where scratch files are, and how much they take together. Thread-safe.
class ScratchSpace {
 public:
  // In the cache directory, with at most cache_bytes.
  explicit ScratchSpace(const proto::StreamOptions& options);
  ScratchSpace(const ScratchSpace&) = delete;
  ScratchSpace& operator=(const ScratchSpace&) = delete;

 private:
  friend class ScratchFile;

  // Errors: FailedPrecondition where there is no directory, or others can read it; those of the
  // system.
  absl::Status Open(int* fd) const;
  // Errors: ResourceExhausted.
  absl::Status Take(int64_t bytes);

  const std::string directory_;
  const int64_t most_bytes_;
  std::atomic<int64_t> taken_{0};
};

// Bytes that are appended, and read anywhere. Few bytes stay in memory. Thread model: one thread;
// once nothing more is appended, any.
class ScratchFile {
 public:
  explicit ScratchFile(ScratchSpace* space) : space_(*space) {}  // which must outlive it
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  int64_t size() const { return written_ + static_cast<int64_t>(pending_.size()); }
  // Errors: ResourceExhausted when the disk is full, or scratch files would take more than
  // dataset.cache_size; FailedPrecondition where there is no directory for them; others of the
  // system.
  absl::Status Append(const void* data, size_t bytes);
  // Errors: DataLoss when the disk cannot read it. The range is one of the file.
  absl::Status Read(int64_t offset, void* out, size_t bytes) const;

 private:
  absl::Status Write();

  ScratchSpace& space_;
  int fd_ = -1;  // none while all of it is in memory
  int64_t written_ = 0;
  std::string pending_;  // behind what is written
};

// Reads a scratch file from its beginning, some bytes after others. Thread model: one thread.
class ScratchReader {
 public:
  explicit ScratchReader(const ScratchFile* file) : file_(*file) {}
  int64_t left() const { return file_.size() - at_ + static_cast<int64_t>(buffer_.size() - used_); }
  // The next bytes, of which there are so many left. Errors: those of ScratchFile::Read.
  absl::Status Read(void* out, size_t bytes);

 private:
  const ScratchFile& file_;
  int64_t at_ = 0;  // behind the buffer
  std::string buffer_;
  size_t used_ = 0;
};

}  // namespace coxswain::data
