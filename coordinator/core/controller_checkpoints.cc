// The controller writes checkpoints, and goes on from one.

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/controller.h"
#include "coordinator/core/directory_trial.h"
#include "runtime/base/not_finite.h"
#include "runtime/base/status.h"

namespace coxswain::core {
void Controller::Resume(checkpoint::Manifest manifest, std::string path) {
  loop_.Post([this, manifest = std::move(manifest), path = std::move(path)]() mutable {
    closures_.Resume(manifest);
    checkpoints_.Resume(std::move(manifest), std::move(path), closures_.steps());
  });
}

void Controller::TryCheckpointDirectory(std::string directory, DoneFn done) {
  loop_.Post([this, directory = std::move(directory), done = std::move(done)]() mutable {
    if (!life_.failed().ok()) {
      done(life_.failed());
      return;
    }
    std::make_shared<DirectoryTrial>(env_, loop_.get(), std::move(directory), std::move(done))
        ->Start(tasks_.ps());
  });
}

absl::Status Controller::NoCheckpoints() const {
  const CheckpointOptions* const options = checkpoints_.options();
  if (options == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("checkpoints of this cluster are written into ",
                                                    options->directory, " already"));
}

void Controller::CheckNoCheckpoints(DoneFn done) {
  loop_.Post([this, done = std::move(done)] { done(NoCheckpoints()); });
}

void Controller::StartCheckpoints(CheckpointOptions options, std::function<std::string()> job_state,
                                  DoneFn done) {
  loop_.Post([this, options = std::move(options), job_state = std::move(job_state),
              done = std::move(done)]() mutable {
    absl::Status status = life_.failed();
    status.Update(NoCheckpoints());
    if (!status.ok()) {
      done(std::move(status));
      return;
    }
    Checkpointer::Source source;
    source.cut = [this] { return CheckpointCut(); };
    source.describe = [this, job_state = std::move(job_state)](checkpoint::Manifest* manifest) {
      return DescribeState(job_state, manifest);
    };
    checkpoints_.Start(std::make_shared<Checkpointer>(env_, loop_.get(), hold_.session(),
                                                      std::move(options), std::move(source)),
                       [this, done = std::move(done)](const absl::StatusOr<uint64_t>& timer) {
                         if (timer.ok()) ScheduleCheckpoint(*timer);
                         done(timer.status());
                       });
  });
}

Checkpointer::Cut Controller::CheckpointCut() const {
  loop_.AssertOnLoop();
  Checkpointer::Cut cut;
  cut.low_water = closures_.low_water();
  const std::set<ShardId> fetched = plans_.FetchedShards();
  for (const auto& p : tasks_.ps()) {
    Checkpointer::PsShards one{p, {}, {}}, last{p, {}, {}};
    for (ShardId shard : layout_.shards().On(p->task())) {
      if (layout_.creating(shard)) continue;  // no closure has changed it
      Checkpointer::PsShards& saved = fetched.count(shard) > 0 ? last : one;
      saved.shards.push_back(shard);
      const proto::SavedShard* base = checkpoints_.BaseOf(shard);
      if (base != nullptr) saved.bases.push_back(*base);
    }
    cut.of_ps.push_back(std::move(one));
    if (!last.shards.empty()) cut.last.push_back(std::move(last));
  }
  return cut;
}

// The mark that parameter servers are told. Below it they forget what they have given to FetchAdd,
// and a closure has to come to the same again as long as some shard of a checkpoint may lack it: so
// while one is gathered, where there is FetchAdd, the mark stays. Unless that goes on for so long
// that the checkpoint cannot be described any more.
ClosureId Controller::MarkToTell() const {
  // During the recovery of a PS, closures that were over become open again, so there is no mark.
  if (!recovery_.running()) return 0;
  const ClosureId mark = closures_.low_water();
  const Checkpointer* const writer = checkpoints_.writer();
  if (writer == nullptr || !plans_.AnyFetch()) return mark;
  const ClosureId gathered = writer->gathers_from();
  return gathered != 0 && closures_.log().Covers(gathered) ? std::min(mark, gathered) : mark;
}

// The closures that some shard may lack, and the program's own state.
absl::Status Controller::DescribeState(const std::function<std::string()>& job_state,
                                       checkpoint::Manifest* manifest) const {
  loop_.AssertOnLoop();
  RETURN_IF_ERROR(
      closures_.Describe([this](PlanId plan) { return plans_.FunctionName(plan); }, manifest));
  manifest->job_state = job_state ? job_state() : "{}";
  manifest->abandoned = checkpoints_.abandoned();
  for (checkpoint::DatasetProgress& data : manifest->data) {
    data.fingerprint = datasets_.fingerprint(data.dataset).value_or(data.fingerprint);
  }
  return absl::OkStatus();
}

void Controller::ScheduleCheckpoint(uint64_t timer) {
  const absl::Duration every = checkpoints_.writer()->options().every;
  if (every <= absl::ZeroDuration()) return;
  loop_.PostAfter(every, [this, timer] {
    if (!checkpoints_.IsCurrent(timer)) return;
    const bool coming = step_pause_.on();  // there will be one soon
    if (!coming && checkpoints_.DueByTime(closures_.steps()) && recovery_.running()) {
      BeginCheckpoint();
    }
    ScheduleCheckpoint(timer);
  });
}

void Controller::CheckpointBySteps() {
  if (step_pause_.on()) return;
  if (checkpoints_.DueBySteps(closures_.steps()) && recovery_.running()) BeginCheckpoint();
}

void Controller::Checkpoint(CheckpointFn done) {
  loop_.Post([this, done = std::move(done)] {
    const bool failed = !life_.failed().ok();
    // One that begins after that of a move would find shards on their way.
    if (!failed && (recovery_.phase() == Phase::kSaving || recovery_.phase() == Phase::kMoving)) {
      parked_.push_back([this, done] { Checkpoint(done); });
    } else if (!failed && layout_.creating()) {
      // It would lack their first values.
      checkpoints_.Postpone([this, done] { Checkpoint(done); });
    } else {
      CheckpointNow(done);
    }
  });
}

void Controller::CheckpointNow(const CheckpointFn& done) {
  loop_.AssertOnLoop();
  if (checkpoints_.writer() == nullptr || !life_.failed().ok() || !recovery_.running()) {
    checkpoints_.WillNotBegin();
    if (!done) return;
    done(!life_.failed().ok() ? life_.failed()
         : checkpoints_.writer() == nullptr
             ? absl::FailedPreconditionError("no directory for checkpoints was set")
             : absl::UnavailableError(
                   absl::StrCat("a checkpoint needs all shards; waiting for ", WaitingFor())));
    return;
  }
  if (closures_.steps_open().used()) {
    PauseSteps(done);
  } else {
    WriteCheckpoint(done);
  }
}

void Controller::WriteCheckpoint(CheckpointFn done) {
  const absl::Duration begin = trace_.Now();
  checkpoints_.Begin(closures_.steps(),
                     [this, done = std::move(done), begin](const Checkpointer::Outcome& outcome) {
                       trace_.Record(trace::SpanKind::kCheckpoint, begin, trace_.Now());
                       OnCheckpoint(outcome);
                       if (done && outcome.status.ok()) done(outcome.manifest);
                       if (done && !outcome.status.ok()) done(outcome.status);
                       checkpoints_.Over();
                       ReleaseWrites();
                     });
}

void Controller::OnCheckpoint(const Checkpointer::Outcome& outcome) {
  loop_.AssertOnLoop();
  if (checkpoints_.Ended(outcome)) OnCheckpointWritten(outcome.manifest);
  if (!outcome.status.ok() && !life_.ending()) {
    Emit(ClusterEvent::Kind::kCheckpointFailed, "",
         absl::StrCat(
             "not written, ",
             checkpoints_.points().empty() ? "there is none yet: " : "the last good one stays: ",
             outcome.status.message()));
    UnlessTakenOver([] {});
    FailIfNotFinite(outcome.status);
  }
}

// Daemons that were all restarted do not know that they have had another coordinator since, but the
// lock on the checkpoints does. Whether it is held is asked for when something went wrong.
void Controller::UnlessTakenOver(std::function<void()> then) {
  if (checkpoints_.writer() == nullptr) {
    then();
    return;
  }
  checkpoints_.writer()->LookForLock([this, then = std::move(then)](const absl::Status& held) {
    if (!life_.failed().ok()) return;
    if (held.ok()) {
      then();
    } else if (!life_.ending()) {
      FailAll(held);
    }
  });
}

// A shard that cannot be saved by its own fault has NaN or infinite values. They spread, so no
// later checkpoint could be written either.
void Controller::FailIfNotFinite(const absl::Status& status) {
  if (!life_.failed().ok()) return;  // the checkpoint was given up because of that
  const auto detail = GetDetail(status);
  if (!detail || detail->cause != ErrorCause::kApplication) return;
  std::string last = "; there is no checkpoint";
  if (!checkpoints_.points().empty()) {
    last = absl::StrCat("; checkpoint ", checkpoints_.points().newest().manifest.number, " (step ",
                        checkpoints_.points().newest().steps, ") is the last one before that");
  }
  FailAll(WithNotFinite(
      WithDetail(absl::Status(status.code(), absl::StrCat(status.message(), last)), *detail), {}));
}

void Controller::OnCheckpointWritten(const checkpoint::Manifest& manifest) {
  const RestorePoints& points = checkpoints_.points();
  // Keeps two good ones, in case the newest turns out to be damaged.
  if (points.size() == 2) closures_.Trim(points.oldest().manifest.low_water);
  ForgetUnusedPlans(closures_.TakeUnused());
  Emit(ClusterEvent::Kind::kCheckpoint, "",
       absl::StrCat("checkpoint ", manifest.number, " written, ", manifest.bytes(), " bytes (",
                    manifest.written_bytes(), " new), step ", manifest.steps_done()));
}

}  // namespace coxswain::core
