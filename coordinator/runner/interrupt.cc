// How a job ends that is interrupted: with a checkpoint, or on an older one.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "coordinator/core/controller.h"
#include "coordinator/runner/runner.h"
#include "runtime/base/not_finite.h"
#include "runtime/base/status.h"

namespace coxswain::runner {
namespace {

// A checkpoint needs all PS; one that is lost just now comes back, or its shards go elsewhere.
constexpr int kSaveAttempts = 60;
constexpr int kLastAttempts = 10;  // of an interrupted job
// An interrupted job waits no longer for lost tasks than this.
constexpr absl::Duration kInterruptPatience = absl::Seconds(10);
constexpr absl::Duration kSaveAgain = absl::Seconds(1);
constexpr absl::Duration kLook = absl::Milliseconds(200);

}  // namespace

void JobRunner::Interrupt() {
  interrupted_.store(true);
  // Who stops a job, with the machines that it runs on perhaps, waits for it a minute at most.
  cluster_.controller()->LimitStalls(kInterruptPatience);
}

bool JobRunner::HasCheckpoint() const {
  return checkpoints_ != nullptr &&
         (checkpoints_->found() || (checkpointing_ && cluster_.Stats().checkpoints.written > 0));
}

absl::Status JobRunner::SaveCheckpoint() {
  absl::Status saved;
  for (int attempt = 0; attempt < (interrupted_ ? kLastAttempts : kSaveAttempts); ++attempt) {
    saved = checkpoints_->Save();
    if (!absl::IsUnavailable(saved)) break;
    absl::SleepFor(kSaveAgain);  // nothing tells when a recovery is over
  }
  return saved;
}

absl::Status JobRunner::SaveInterrupted() {
  if (events_.on_progress) events_.on_progress({Progress::Phase::kCheckpointing});
  const absl::Status saved = SaveCheckpoint();
  const bool has_older = HasCheckpoint();
  // To go on from an older one would end in the same number that is none.
  resumable_ = saved.ok() || (has_older && !GetNotFinite(saved));
  if (saved.ok()) return saved;
  return Annotate(
      saved, absl::StrCat("interrupted, and no checkpoint could be written",
                          resumable_ ? "; --resume goes on from the newest one there is" : ""));
}

// A job with checkpoints lets what it scheduled run, and goes on behind it. That may be minutes'
// work where data is streamed, and is endless where there is no worker: then the checkpoint has
// what did not run, and it runs when the job goes on.
void JobRunner::LetRun(ClusterCoordinator* coordinator) {
  const bool ahead = follows() || data().group_size() > 0;
  while (!ahead && !coordinator->Done(kLook) && cluster_.Stats().workers_ready > 0) continue;
  if (coordinator->Done()) return;
  saved_interrupted_ = SaveInterrupted();
  coordinator->Cancel();
}

}  // namespace coxswain::runner
