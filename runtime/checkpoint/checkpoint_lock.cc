#include "runtime/checkpoint/checkpoint_lock.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/message_json.h"

namespace coxswain::checkpoint {
namespace {

std::string FileOf(const std::string& directory) { return absl::StrCat(directory, "/.lock"); }

std::string ToJson(const CheckpointHolder& holder) {
  const Json json = {
      {"host", holder.host},
      {"pid", holder.pid},
      {"job", holder.job},
      {"cluster", holder.cluster},
      {"epoch", holder.epoch.number()},
      {"since", absl::FormatTime(absl::RFC3339_sec, holder.since, absl::UTCTimeZone())}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string Text(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_string() ? it->get<std::string>() : "";
}

// Whether `me` has the daemons and `other` had them before, or waits for them.
bool Succeeds(const CheckpointHolder& me, const CheckpointHolder& other) {
  return !me.cluster.empty() && me.cluster == other.cluster && other.epoch < me.epoch;
}

// A lock that takes itself back from an older session. Thread model: any thread.
class CheckpointLock final : public env::FileLock {
 public:
  CheckpointLock(std::shared_ptr<env::FileSystem> files, std::string directory, CheckpointHolder me,
                 std::unique_ptr<env::FileLock> lock)
      : files_(std::move(files)),
        directory_(std::move(directory)),
        me_(std::move(me)),
        lock_(std::move(lock)) {}

  bool Held() override {
    const absl::MutexLock locked(&mu_);
    MakeAgain();
    if (lock_->Held()) return true;
    const CheckpointHolder other = ReadCheckpointHolder(files_.get(), directory_);
    // One without a session may have come when a newer one was over.
    if (other.epoch == Epoch() || !Succeeds(me_, other)) return false;
    auto taken = files_->TakeLock(FileOf(directory_), ToJson(me_));
    if (!taken.ok()) {
      LogWarning("checkpoints in ", directory_, ": ", taken.status().message());
      return false;
    }
    LogWarning("the checkpoints in ", directory_, " are taken back from ", ToString(other),
               ", which has lost the cluster");
    lock_ = *std::move(taken);
    return lock_->Held();
  }

 private:
  // Somebody has removed the file, as by an `rm -rf` of the directory: without it nothing would
  // keep another job out. One that came first has the lock.
  void MakeAgain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!files_->Exists(directory_) || files_->Exists(FileOf(directory_))) return;
    auto again = files_->Lock(FileOf(directory_), ToJson(me_));
    if (!again.ok()) return;
    LogWarning(FileOf(directory_), " was removed; it is made again");
    lock_ = *std::move(again);
  }

  const std::shared_ptr<env::FileSystem> files_;
  const std::string directory_;
  const CheckpointHolder me_;
  absl::Mutex mu_;
  std::unique_ptr<env::FileLock> lock_ ABSL_GUARDED_BY(mu_);
};

absl::StatusOr<std::shared_ptr<env::FileLock>> Finish(
    std::shared_ptr<env::FileSystem> files, const std::string& directory,
    const CheckpointHolder& me, absl::StatusOr<std::unique_ptr<env::FileLock>> lock) {
  if (lock.ok()) {
    return std::make_shared<CheckpointLock>(std::move(files), directory, me, *std::move(lock));
  }
  if (!absl::IsUnimplemented(lock.status())) return lock.status();
  LogWarning(lock.status().message(), ": another job may write checkpoints there, too");
  return std::shared_ptr<env::FileLock>();
}

absl::Status HeldBy(const std::string& directory, const CheckpointHolder& holder) {
  return WithDetail(absl::UnavailableError(absl::StrCat(
                        "the checkpoints in ", directory, " belong to ", ToString(holder),
                        ", which is running: wait for its end, or name another directory")),
                    {ErrorCause::kClusterHeld, false, "", 0});
}

}  // namespace

absl::StatusOr<std::shared_ptr<env::FileLock>> LockCheckpoints(
    std::shared_ptr<env::FileSystem> files, const std::string& directory,
    const CheckpointHolder& me) {
  auto lock = files->Lock(FileOf(directory), ToJson(me));
  if (absl::IsUnavailable(lock.status())) {
    return HeldBy(directory, ReadCheckpointHolder(files.get(), directory));
  }
  return Finish(std::move(files), directory, me, std::move(lock));
}

absl::StatusOr<std::shared_ptr<env::FileLock>> TakeCheckpoints(
    std::shared_ptr<env::FileSystem> files, const std::string& directory,
    const CheckpointHolder& me, const std::shared_ptr<env::FileLock>& had) {
  const bool held = had != nullptr && had->Held();
  if (!held) {
    auto lock = LockCheckpoints(files, directory, me);
    if (!absl::IsUnavailable(lock.status())) return lock;
    const CheckpointHolder other = ReadCheckpointHolder(files.get(), directory);
    if (!Succeeds(me, other)) return HeldBy(directory, other);
  }
  auto taken = files->TakeLock(FileOf(directory), ToJson(me));
  // A lock without the epoch is better than none, where the disk is full.
  if (!taken.ok() && held) return had;
  return Finish(std::move(files), directory, me, std::move(taken));
}

CheckpointHolder ReadCheckpointHolder(env::FileSystem* files, const std::string& directory) {
  CheckpointHolder holder;
  const auto text = files->Read(FileOf(directory));
  if (!text.ok()) return holder;
  const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return holder;
  holder.host = Text(json, "host");
  holder.job = Text(json, "job");
  holder.cluster = Text(json, "cluster");
  ReadInteger(json.value("pid", Json()), &holder.pid);
  uint64_t epoch = 0;
  if (ReadInteger(json.value("epoch", Json()), &epoch)) holder.epoch = epoch;
  std::string error;
  absl::ParseTime(absl::RFC3339_sec, Text(json, "since"), &holder.since, &error);
  return holder;
}

std::string ToString(const CheckpointHolder& holder) {
  if (holder.pid == 0) return "another job";
  return absl::StrCat(holder.job.empty() ? "a job" : absl::StrCat("job '", holder.job, "'"),
                      " (process ", holder.pid, " on ", holder.host, ", since ",
                      absl::FormatTime("%Y-%m-%d %H:%M:%S", holder.since, absl::LocalTimeZone()),
                      ")");
}

}  // namespace coxswain::checkpoint
