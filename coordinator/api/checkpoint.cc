#include "coordinator/api/checkpoint.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/api/cluster_identity.h"
#include "coordinator/api/wait.h"
#include "coordinator/core/controller.h"
#include "runtime/base/status.h"
#include "runtime/env/this_process.h"

namespace coxswain {
namespace {

constexpr absl::Duration kLockPoll = absl::Milliseconds(100);

}  // namespace

CheckpointManager::CheckpointManager(CheckpointOptions options)
    : options_(std::move(options)), files_(NewRealFileSystem()) {
  std::error_code ignored;
  const auto absolute = std::filesystem::absolute(options_.directory, ignored);
  if (!ignored && !options_.directory.empty()) {
    options_.directory = absolute.lexically_normal().string();
    while (options_.directory.size() > 1 && options_.directory.back() == '/') {
      options_.directory.pop_back();
    }
  }
}

absl::Status CheckpointManager::Find(const Usable& usable) {
  // The one that was found before need not be read again.
  const uint64_t verified = std::exchange(found_, false) ? manifest_.number : 0;
  skipped_.clear();
  ASSIGN_OR_RETURN(std::vector<CheckpointEntry> entries,
                   ListCheckpoints(files_.get(), options_.directory));
  for (CheckpointEntry& entry : entries) {
    absl::Status status = entry.manifest.status();
    if (status.ok() && usable) status = usable(*entry.manifest);
    if (status.ok()) {
      status = entry.number == verified
                   ? CheckSizes(files_.get(), entry.path, *entry.manifest)
                   : VerifyCheckpoint(files_.get(), entry.path, *entry.manifest);
    }
    if (status.ok()) {
      found_ = true;
      manifest_ = *std::move(entry.manifest);
      path_ = entry.path;
      return absl::OkStatus();
    }
    skipped_.push_back(std::move(status));
  }
  if (entries.empty()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("none of the ", entries.size(), " checkpoints in ",
                                          options_.directory,
                                          " can be used; the newest: ", skipped_[0].message()));
}

absl::Status CheckpointManager::Restore(ParameterServerStrategy* strategy) {
  if (!found_) return absl::OkStatus();
  RETURN_IF_ERROR(strategy->UseLayout(manifest_));
  strategy->cluster().controller()->Resume(manifest_, path_);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<RemoteValue>> CheckpointManager::RunPending(
    ClusterCoordinator* coordinator, const std::vector<RemoteFunction>& functions) {
  std::vector<RemoteValue> values;
  if (!found_) return values;
  std::vector<const RemoteFunction*> of_closure;
  for (const CheckpointClosure& closure : manifest_.closures) {
    const RemoteFunction* function = nullptr;
    for (const RemoteFunction& f : functions) {
      if (f.name() == closure.function) function = &f;
    }
    if (function == nullptr) {
      return absl::NotFoundError(absl::StrCat("closure ", closure.id, " of ", path_,
                                              " is of a function '", closure.function,
                                              "' that this program does not have"));
    }
    of_closure.push_back(function);
  }
  for (size_t i = 0; i < of_closure.size(); ++i) {
    values.push_back(coordinator->ScheduleResumed(*of_closure[i], manifest_.closures[i]));
  }
  return values;
}

CheckpointHolder CheckpointManager::Me(const std::string& cluster) const {
  return {HostName(), getpid(), options_.job, cluster, absl::Now()};
}

absl::Status CheckpointManager::Lock(const std::string& cluster, absl::Duration wait) {
  if (options_.directory.empty())
    return absl::InvalidArgumentError("no checkpoint directory given");
  if (locked_) return absl::OkStatus();
  RETURN_IF_ERROR(files_->MakeDirs(options_.directory));
  const absl::Time deadline = absl::Now() + wait;
  while (true) {
    auto lock = LockCheckpoints(files_.get(), options_.directory, Me(cluster));
    if (lock.ok()) {
      locked_ = true;
      options_.lock = *std::move(lock);
      return absl::OkStatus();
    }
    if (!absl::IsUnavailable(lock.status()) || absl::Now() >= deadline) return lock.status();
    absl::SleepFor(kLockPoll);  // nothing tells when a process ends
  }
}

CheckpointHolder CheckpointManager::holder() const {
  return ReadCheckpointHolder(files_.get(), options_.directory);
}

absl::Status CheckpointManager::TryDirectory(const Cluster& cluster) {
  RETURN_IF_ERROR(WaitForStatus([&](auto done) {
    cluster.controller()->TryCheckpointDirectory(options_.directory, std::move(done));
  }));
  tried_ = true;
  return absl::OkStatus();
}

absl::Status CheckpointManager::Start(const Cluster& cluster, std::function<std::string()> state) {
  const std::string& daemons = cluster.identity();
  const absl::Status locked = Lock(daemons, absl::ZeroDuration());
  if (absl::IsUnavailable(locked) && !daemons.empty() && holder().cluster == daemons) {
    // The daemons have let go of that one.
    ASSIGN_OR_RETURN(options_.lock, TakeCheckpoints(files_.get(), options_.directory, Me(daemons)));
    locked_ = true;
  } else {
    RETURN_IF_ERROR(locked);
  }
  if (!tried_) RETURN_IF_ERROR(TryDirectory(cluster));
  cluster_ = std::make_unique<Cluster>(cluster);
  cluster.controller()->StartCheckpoints(options_, std::move(state));
  return absl::OkStatus();
}

absl::Status CheckpointManager::Save() {
  if (cluster_ == nullptr) {
    return absl::FailedPreconditionError("CheckpointManager::Start was not called");
  }
  return WaitForValue<Manifest>(
             [this](auto done) { cluster_->controller()->Checkpoint(std::move(done)); })
      .status();
}

}  // namespace coxswain
