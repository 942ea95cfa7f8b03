// Compressed files (gzip, zstd) that are read in blocks. They cannot be read from the middle, so
// each is decompressed once, into a copy that processes of its machine share (shared_copies.h), and
// blocks are read from the copy.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "protos/dataset.pb.h"
#include "protos/dataset_index.pb.h"
#include "runtime/data/stream/shared_copies.h"

namespace coxswain::data {

// The copies of one data set: those that it opened stay as long as this object. Thread model:
// thread-safe.
class UnpackedFiles {
 public:
  using File = std::shared_ptr<const SharedCopy>;

  explicit UnpackedFiles(const proto::StreamOptions& options) : copies_(options) {}

  // Opens the copy of a compressed file as it was indexed; decompresses the file first if there is
  // no copy, which may take long. Errors, which name the file: FailedPrecondition when it has
  // changed, or there is no directory for copies; DataLoss for a damaged or torn file; those of
  // SharedCopies and RandomAccessFile.
  absl::StatusOr<File> Open(const std::string& path, const proto::IndexedFile& indexed);
  // What is in the opened copy is not what was indexed. Where the compressed file is as it was, the
  // copy is removed, so that another one is made, and the error is DataLoss, which says so; else it
  // is FailedPrecondition, as of Open. Others who have it open keep it.
  absl::Status Damaged(const std::string& path, const proto::IndexedFile& indexed);

 private:
  struct Opened {
    File file;
    std::string name;
  };
  absl::Status Unpack(const std::string& path, const proto::IndexedFile& indexed,
                      const std::string& name, int copy) const;

  const SharedCopies copies_;
  absl::Mutex mu_;
  std::map<std::string, Opened> opened_ ABSL_GUARDED_BY(mu_);  // by path
};

}  // namespace coxswain::data
