#include "coordinator/api/read_as_one.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/api/wait.h"
#include "coordinator/api/wait_reporter.h"
#include "coordinator/core/controller.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"

namespace coxswain {

absl::StatusOr<Generation> AwaitRerun(const Cluster& cluster) {
  return WaitForValue<Generation>(
      [&](auto done) { cluster.controller()->AwaitRerun(std::move(done)); },
      WaitReporter(cluster).For("closures that run again"));
}

absl::Status ReadAsOne(const Cluster& cluster, absl::string_view what,
                       const std::function<absl::Status()>& read) {
  ASSIGN_OR_RETURN(Generation before, AwaitRerun(cluster));
  for (int reads = 1;; ++reads) {
    const absl::Status status = read();
    const absl::StatusOr<Generation> after = AwaitRerun(cluster);
    if (!after.ok()) return status.ok() ? after.status() : status;
    if (*after == before) return status;
    if (reads == kMostReads) break;
    LogWarning(what, " is read again: shards went back to a checkpoint, or moved, meanwhile");
    before = *after;
  }
  return WithDetail(
      absl::UnavailableError(absl::StrCat(what, ": shards went back to a checkpoint, or moved, ",
                                          kMostReads, " times while it was read")),
      {ErrorCause::kTaskLost, true, "", 0});
}

}  // namespace coxswain
