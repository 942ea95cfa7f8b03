// Ranges of files in object stores that will be wanted soon. Each request waits for the store, so
// they are asked for before they are wanted, several at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "runtime/data/stream/kept_files.h"
#include "runtime/env/random_access_file.h"

namespace coxswain::data {

// Thread-safe.
class ReadsAhead {
 public:
  // `files` must outlive it. At most so many bytes are on their way or wait to be taken, but always
  // one range.
  ReadsAhead(KeptFiles* files, int64_t most_bytes) : files_(*files), most_bytes_(most_bytes) {}

  struct Range {
    std::string path;
    int64_t offset = 0, bytes = 0;
  };
  // Asks for the first of these that there is room for; lets go what is not among those. A file
  // that cannot be opened is left to who reads it.
  void Want(const std::vector<Range>& ranges);
  // Waits for a range that was asked for, and forgets it. False where it was not, or did not come:
  // it is to be read.
  bool Take(const Range& range, void* out);

 private:
  using Place = std::pair<std::string, int64_t>;
  struct Coming {
    int64_t bytes = 0;
    std::unique_ptr<env::PendingRead> read;
  };

  KeptFiles& files_;
  const int64_t most_bytes_;
  absl::Mutex mu_;
  std::map<Place, Coming> coming_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coxswain::data
