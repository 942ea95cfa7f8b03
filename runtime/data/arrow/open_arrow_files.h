// Files of columns that stay open while a data set is read by blocks. Opening one reads and decodes
// its footer, which describes each column of each row group: of many columns and small groups that
// is more work than a group itself.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "runtime/data/arrow/arrow_file.h"

namespace coxswain::data {

class KeptFiles;   // runtime/data/stream/kept_files.h
class ReadsAhead;  // runtime/data/stream/reads_ahead.h

// Files that `kept` opens, and what `ahead` was asked for. Both must outlive what is read with it.
ArrowInput InputOf(KeptFiles* kept, ReadsAhead* ahead);

class OpenArrowFiles {
 public:
  // Which file a path leads to. What is in an object store has none: who reads it compares what was
  // read with what was indexed.
  struct Identity {
    uint64_t device = 0, inode = 0;
    int64_t bytes = 0, changed_ns = 0;
    bool operator==(const Identity&) const = default;
  };
  struct File {
    std::unique_ptr<ArrowFile> file;
    CoxArrowFormat format = COX_ARROW_PARQUET;
    Identity identity;
  };

  explicit OpenArrowFiles(ArrowInput input = {}) : input_(std::move(input)) {}

  // One that nobody has at the moment, or a new one; never one that was replaced or written to
  // since it was opened. Errors: those of ArrowFile::Open.
  absl::StatusOr<File> Take(const std::string& path, CoxArrowFormat format);
  // It was read without an error, and may be taken again. Those that were not used for the longest
  // time are closed where there are too many.
  void GiveBack(File file);

  int64_t idle() const;

 private:
  const ArrowInput input_;
  mutable absl::Mutex mu_;
  std::list<File> idle_ ABSL_GUARDED_BY(mu_);  // the last used at the front
};

}  // namespace coxswain::data
