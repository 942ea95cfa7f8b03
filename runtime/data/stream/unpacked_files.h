// Packed files (gzip, zstd) that are read in blocks. They cannot be entered in the middle, so each
// is unpacked once into a copy in a directory of this user's alone, and blocks are read from that.
//
// A copy is there whole or not at all: it is written under another name and renamed. Processes
// share copies: who reads one holds a lock on it, shared with others, and who writes one a lock of
// its own; the system takes both from a process that is killed. All copies together take at most so
// many bytes: the ones that nobody reads go first, longest unused ones before others.
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

// Of one data set: copies that it opened stay as long as it does. Thread model: thread-safe.
class UnpackedFiles {
 public:
  using File = std::shared_ptr<const env::RandomAccessFile>;

  explicit UnpackedFiles(const proto::StreamOptions& options);
  ~UnpackedFiles();
  UnpackedFiles(const UnpackedFiles&) = delete;
  UnpackedFiles& operator=(const UnpackedFiles&) = delete;

  // The copy of a packed file as it was indexed; unpacks it where there is none, which takes its
  // time. Errors, which name the file: FailedPrecondition when it is another by now, or where there
  // is no directory for copies; DataLoss for a damaged or torn one; ResourceExhausted where the
  // disk is full or copies would take more than StreamOptions.cache_bytes; Unavailable when another
  // process unpacks it and gets no further; those of RandomAccessFile.
  absl::StatusOr<File> Open(const std::string& path, const proto::IndexedFile& indexed);

 private:
  struct Opened {
    File file;
    int lock = -1;
  };

  // Nothing where there is no whole copy.
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
