// The group files of a streamed data set: each is made once on a machine, as a copy that processes
// of its machine share (shared_copies.h), when somebody needs it.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "protos/dataset.pb.h"
#include "runtime/data/stream/group_file.h"
#include "runtime/data/stream/parsed_block.h"
#include "runtime/data/stream/shared_copies.h"

namespace coxswain::data {

// Those that were opened stay as long as this object. Thread model: thread-safe.
class GroupFiles {
 public:
  using File = std::shared_ptr<const GroupFile>;

  explicit GroupFiles(const proto::StreamOptions& options) : copies_(options) {}

  // Opens the file of a target; makes it first if there is none, which takes as long as to read the
  // data set, and to sort it. `data`: the same every time. Errors, which name the column of the
  // groups: FailedPrecondition where there is no directory for it; those of SharedCopies and
  // MakeGroupFile.
  absl::StatusOr<File> Open(const StreamedSpec& data, const GroupTarget& target);

 private:
  const SharedCopies copies_;
  absl::Mutex mu_;
  std::vector<std::pair<GroupTarget, File>> opened_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coxswain::data
