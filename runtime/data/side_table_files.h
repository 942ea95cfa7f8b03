// The files of side tables, byte by byte, as they were when rows were read with them: a model is
// saved with these, whatever has become of the files since.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "protos/dataset.pb.h"
#include "protos/dataset_index.pb.h"

namespace coxswain::data {

// Thread model: immutable.
struct SideTableFiles {
  std::vector<std::string> contents;  // parallel to DatasetSpec.joins; as packed as the files are
  std::string version;                // 16 hex digits; the same for the same contents
};
using SideTableFilesPtr = std::shared_ptr<const SideTableFiles>;

// Files that are read before rows are, and what they were then.
class SideTableReading {
 public:
  // Errors: those of OpenDataFile and of reading.
  static absl::StatusOr<SideTableReading> Read(const proto::DatasetSpec& spec);
  // After the rows: whether they were read with these. Errors: those of CheckUnchanged.
  absl::Status CheckUnchanged(const proto::DatasetSpec& spec) const;
  const SideTableFilesPtr& files() const { return files_; }  // null for a spec without joins

 private:
  SideTableFilesPtr files_;
  std::vector<proto::IndexedFile> identities_;
};

// Those that a data set has now: a job that follows trains each epoch with the tables of its time.
// Thread-safe.
class CurrentSideTables {
 public:
  SideTableFilesPtr Get() const {
    absl::MutexLock lock(&mu_);
    return files_;
  }
  void Set(SideTableFilesPtr files) {
    absl::MutexLock lock(&mu_);
    files_ = std::move(files);
  }

 private:
  mutable absl::Mutex mu_;
  SideTableFilesPtr files_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coxswain::data
