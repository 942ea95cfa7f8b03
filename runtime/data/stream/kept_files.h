// Files of object stores that stay open while a data set is read by blocks: each opening asks the
// store, and waits for its answer. Files of this machine are opened anew each time, so that one
// that was replaced is noticed and descriptors are not used up.
//
// Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "runtime/env/random_access_file.h"

namespace coxswain::data {

class KeptFiles {
 public:
  using File = std::shared_ptr<const env::RandomAccessFile>;

  // Errors: those of OpenDataFile.
  absl::StatusOr<File> Open(const std::string& path);
  // What is kept is not what it was: it is opened anew the next time.
  void Forget(const std::string& path);

 private:
  absl::Mutex mu_;
  std::map<std::string, File> files_ ABSL_GUARDED_BY(mu_);  // by path
};

}  // namespace coxswain::data
