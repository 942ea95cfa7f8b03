// Which files of object stores were found to be those that were indexed. Each is a request, which
// waits for the store: so who opens a data set of many of them does not wait for all, and each is
// compared before its first block is used.
//
// Thread-safe.
#pragma once

#include <string>
#include <unordered_set>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "protos/dataset_index.pb.h"

namespace coxswain::data {

class CheckedFiles {
 public:
  // Whether a file is compared by Check, and not when the data set is opened.
  static bool IsLate(const std::string& path);

  // Nothing for files that are not late, or are known to be the same. Errors: those of
  // CheckUnchanged; then it is compared again the next time.
  absl::Status Check(const std::string& path, const proto::IndexedFile& indexed);

 private:
  absl::Mutex mu_;
  std::unordered_set<std::string> same_ ABSL_GUARDED_BY(mu_);  // by path
};

}  // namespace coxswain::data
