// How a coordinator of the simulation finds, locks and tries its directory of checkpoints.
#include <memory>
#include <utility>

#include "runtime/checkpoint/checkpoint_lock.h"
#include "runtime/checkpoint/manifest.h"
#include "tests/sim/job.h"

namespace coxswain::sim {
namespace {

// What a lock on checkpoints says of the cluster: there is one.
constexpr char kDaemons[] = "the daemons";

}  // namespace

bool CoordinatorProcess::FindCheckpoint() {
  resumed_ = false;
  if (!job_->options_.checkpoints) return true;
  auto newest =
      checkpoint::NewestGoodCheckpoint(place_.env->files(), job_->options_.checkpoint.directory,
                                       /*skipped=*/nullptr);
  if (newest.ok()) {
    resumed_ = true;
    manifest_ = *std::move(newest->manifest);
    manifest_path_ = newest->path;
  } else if (!absl::IsNotFound(newest.status())) {
    place_.world->Violation(absl::StrCat("no checkpoint is good: ", newest.status().ToString()));
    return false;
  }
  return true;
}

void CoordinatorProcess::TryDirectory() {
  const std::string& directory = job_->options_.checkpoint.directory;
  if (!LockDirectory(directory)) return;
  ++job_->totals.directories_tried;
  controller_->TryCheckpointDirectory(directory, Guard([this](const absl::Status& status) {
                                        if (!status.ok()) {
                                          Exit("directory of checkpoints", status);
                                        } else {
                                          CreateNext();
                                        }
                                      }));
}

// As a program does that has the daemons now: a lock goes with its process, also when that is
// killed, and is taken from one that had them before. False: one that came later has it.
bool CoordinatorProcess::LockDirectory(const std::string& directory) {
  env::FileSystem* const files = place_.env->files();
  if (!files->MakeDirs(directory).ok()) return true;  // the disk is full
  checkpoint::CheckpointHolder me;
  me.host = place_.life->name;
  me.pid = static_cast<int64_t>(place_.life->number);
  me.cluster = kDaemons;
  me.epoch = controller_->epoch();
  auto lock = checkpoint::TakeCheckpoints({std::shared_ptr<void>(), files}, directory, me, nullptr);
  if (lock.ok()) {
    lock_ = *std::move(lock);
    return true;
  }
  Exit("the lock on its checkpoints", lock.status());
  return false;
}

// A second manager, with a directory of its own. Its calls are the controller's own, so its lock is
// not simulated.
void CoordinatorProcess::StartTwice() {
  if (next_ >= job_->workload_->closures()) return;
  CheckpointOptions other = job_->options_.checkpoint;
  other.directory += "-of-another";
  controller_->StartCheckpoints(std::move(other), nullptr, Guard([this](const absl::Status& s) {
                                  if (s.ok()) {
                                    place_.world->Violation("checkpoints were started twice");
                                  }
                                  ++job_->totals.starts_refused;
                                }));
  ++saving_;
  controller_->Checkpoint(Guard([this](const absl::StatusOr<checkpoint::Manifest>& saved) {
    job_->totals.saved += saved.ok();
    --saving_;
    ScheduleMore();
    // Who saves without a pause leaves no time for steps.
    place_.world->Schedule(place_.world->random().Exponential(absl::Milliseconds(200)), place_.life,
                           [this] { StartTwice(); });
  }));
}

}  // namespace coxswain::sim
