// Compressed files (gzip, zstd) that are read in blocks. They cannot be read from the middle, so
// each is decompressed once, into a copy in a directory that only this user can read, and blocks
// are read from the copy.
//
// A copy appears when it is complete: it is written under another name and renamed. Processes share
// copies: a reader of a copy holds a shared lock on it, and a writer holds an exclusive lock; the
// system releases the locks of a process that is killed. The total size of copies is bounded:
// copies without readers are removed, the least recently used first.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "protos/dataset.pb.h"
#include "protos/dataset_index.pb.h"
#include "runtime/env/random_access_file.h"

namespace coxswain::data {

inline constexpr int64_t kDefaultCacheBytes = int64_t{100} << 30;

// The copies of one data set: those that it opened stay as long as this object. Thread model:
// thread-safe.
class UnpackedFiles {
 public:
  using File = std::shared_ptr<const env::RandomAccessFile>;

  explicit UnpackedFiles(const proto::StreamOptions& options);
  ~UnpackedFiles();
  UnpackedFiles(const UnpackedFiles&) = delete;
  UnpackedFiles& operator=(const UnpackedFiles&) = delete;

  // Opens the copy of a compressed file as it was indexed; decompresses the file first if there is
  // no copy, which may take long. Errors, which name the file: FailedPrecondition when it has
  // changed, or there is no directory for copies; DataLoss for a damaged or torn file;
  // ResourceExhausted when the disk is full or copies would take more than
  // StreamOptions.cache_bytes; Unavailable when another process is decompressing it and makes no
  // progress; those of RandomAccessFile.
  absl::StatusOr<File> Open(const std::string& path, const proto::IndexedFile& indexed);

 private:
  struct Opened {
    File file;
    int lock = -1;
  };

  // Returns an empty result if there is no complete copy.
  Opened OpenCopy(const std::string& copy, int64_t bytes) const;
  absl::Status Unpack(const std::string& path, const proto::IndexedFile& indexed,
                      const std::string& copy) const;
  absl::Status Write(const std::string& path, const proto::IndexedFile& indexed, int part) const;
  absl::Status MakeRoom(int64_t bytes, const std::string& but) const;

  const std::string directory_;
  const int64_t most_bytes_;
  absl::Mutex mu_;
  std::map<std::string, Opened> opened_ ABSL_GUARDED_BY(mu_);  // by path
};

}  // namespace coxswain::data
