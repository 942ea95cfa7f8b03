// In the order in which a program calls it: finding a checkpoint, going on from it (under other
// names), locking the directory, writing.
#include "coxswain/checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "coordinator/api/catalog.h"
#include "coordinator/api/cluster_identity.h"
#include "coordinator/api/wait.h"
#include "coordinator/api/wait_reporter.h"
#include "coordinator/core/controller.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/checkpoint_lock.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/data/names.h"
#include "runtime/data/utf8.h"
#include "runtime/env/this_process.h"

namespace coxswain {
namespace {

constexpr absl::Duration kLockPoll = absl::Milliseconds(100);

std::string Absolute(const std::string& directory) {
  std::error_code ignored;
  const auto absolute = std::filesystem::absolute(directory, ignored);
  if (ignored || directory.empty()) return directory;
  std::string path = absolute.lexically_normal().string();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// Messages to the parameter servers cannot name others.
absl::Status CheckPath(const std::string& directory) {
  if (data::IsUtf8(directory)) return absl::OkStatus();
  return WithDetail(
      absl::InvalidArgumentError(absl::StrCat(
          "checkpoint directory: wanted a path in UTF-8, found ", data::Quoted(directory))),
      {ErrorCause::kConfiguration, false, "", 0});
}

}  // namespace

struct CheckpointManager::State {
  checkpoint::CheckpointHolder Me(const std::string& cluster, Epoch epoch) const {
    return {env::HostName(), getpid(), options.job, cluster, absl::Now(), epoch};
  }

  CheckpointOptions options;
  std::shared_ptr<env::FileSystem> files = env::NewRealFileSystem();
  bool found = false;
  checkpoint::Manifest manifest;
  std::string path;
  std::vector<absl::Status> skipped;
  std::unique_ptr<Cluster> cluster;  // once started
  bool locked = false;
  Epoch holder_epoch = 0;  // of the coordinator of the same daemons that had the lock
  // The newest checkpoint's number when they were last looked at, 0: there was none; nullopt: they
  // were not.
  std::optional<uint64_t> newest;
  uint64_t restored = 0;  // the number of the one that was found last, if that was restored
  bool tried = false;     // the directory
  absl::Status LookAtCheckpoints();
  absl::Status CheckDirectory() const;
  absl::Status CheckLeftOver(const Cluster& on) const;
};

CheckpointManager::CheckpointManager(CheckpointOptions options)
    : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
  state_->options.directory = Absolute(state_->options.directory);
}
CheckpointManager::CheckpointManager(CheckpointManager&&) noexcept = default;
CheckpointManager& CheckpointManager::operator=(CheckpointManager&&) noexcept = default;
CheckpointManager::~CheckpointManager() = default;

bool CheckpointManager::found() const { return state_->found; }
const std::string& CheckpointManager::path() const { return state_->path; }
const std::string& CheckpointManager::state() const { return state_->manifest.job_state; }
uint64_t CheckpointManager::next_closure() const { return state_->manifest.next_closure; }
const checkpoint::Manifest& CheckpointManager::manifest() const { return state_->manifest; }
const std::vector<absl::Status>& CheckpointManager::skipped() const { return state_->skipped; }
const CheckpointOptions& CheckpointManager::options() const { return state_->options; }
uint64_t CheckpointManager::min_epoch() const {
  Epoch newest = state_->holder_epoch;
  if (found()) newest = std::max(newest, state_->manifest.epoch);
  return newest == Epoch() ? Epoch() : NextEpoch(newest);
}

absl::Status CheckpointManager::Find(const Usable& usable) {
  // The one that was found before need not be read again.
  const uint64_t verified = std::exchange(state_->found, false) ? state_->manifest.number : 0;
  const uint64_t restored = std::exchange(state_->restored, 0);
  state_->skipped.clear();
  ASSIGN_OR_RETURN(checkpoint::ChosenCheckpoint chosen,
                   checkpoint::ChooseCheckpoint(state_->files.get(), state_->options.directory,
                                                {.usable = usable, .verified = verified}));
  state_->newest = chosen.newest();
  for (const checkpoint::CheckpointEntry& entry : chosen.skipped) {
    state_->skipped.push_back(entry.manifest.status());
  }
  if (chosen.good) {
    state_->found = true;
    state_->manifest = *std::move(chosen.good->manifest);
    state_->path = chosen.good->path;
    if (state_->manifest.number == restored) state_->restored = restored;
    return absl::OkStatus();
  }
  const absl::Status why = chosen.WhyNone(state_->options.directory);
  return absl::IsNotFound(why) ? absl::OkStatus() : why;
}

namespace {

// The program's names in place of the checkpoint's. Where the rows lie says nothing of names.
absl::Status Rename(const std::map<std::string, std::string>& renamed,
                    checkpoint::Manifest* manifest) {
  std::map<std::string, std::string> names;  // by the checkpoint's
  for (const proto::SavedShard& saved : manifest->shards) {
    names[saved.shard().variable().name()] = saved.shard().variable().name();
  }
  std::set<std::string> found;
  for (const auto& [now, before] : renamed) {
    const auto at = names.find(before);
    if (at == names.end()) {
      return absl::NotFoundError(absl::StrCat(
          "'", now, "' is to be what the checkpoint has as '", before, "'; it has: ",
          absl::StrJoin(names, ", ", [](std::string* out, const auto& n) { *out += n.first; })));
    }
    if (!found.insert(before).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", at->second, "' and '", now, "' are both to be '", before, "'"));
    }
    at->second = now;
  }
  std::map<std::string, std::string> taken;
  for (const auto& [before, now] : names) {
    const auto [other, is_new] = taken.try_emplace(now, before);
    if (is_new) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "'", before, "' and '", other->second, "' of the checkpoint would both be '", now, "'"));
  }
  for (proto::SavedShard& saved : manifest->shards) {
    std::string* const name = saved.mutable_shard()->mutable_variable()->mutable_name();
    *name = names[*name];
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckpointManager::Restore(ParameterServerStrategy* strategy,
                                        const std::map<std::string, std::string>& renamed) {
  if (!state_->found) return absl::OkStatus();
  RETURN_IF_ERROR(CheckPath(state_->path));
  checkpoint::Manifest manifest = state_->manifest;
  RETURN_IF_ERROR(Annotate(Rename(renamed, &manifest), state_->path));
  RETURN_IF_ERROR(strategy->UseLayout(manifest));
  if (!strategy->cluster().catalog()->shares_layout()) {
    strategy->cluster().controller()->Resume(std::move(manifest), state_->path);
  }
  state_->restored = state_->manifest.number;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<RemoteValue>> CheckpointManager::RunPending(
    ClusterCoordinator* coordinator, const std::vector<RemoteFunction>& functions) {
  return RunPendingBy(coordinator, [&functions](const checkpoint::CheckpointClosure& closure) {
    const RemoteFunction* function = nullptr;
    for (const RemoteFunction& f : functions) {
      if (f.name() != closure.function) continue;
      if (function != nullptr) {
        return absl::StatusOr<const RemoteFunction*>(absl::InvalidArgumentError(
            absl::StrCat("two functions are called '", closure.function, "', and closure ",
                         closure.id, " may be of either: wanted functions of different names")));
      }
      function = &f;
    }
    return absl::StatusOr<const RemoteFunction*>(function);
  });
}

absl::StatusOr<std::vector<RemoteValue>> CheckpointManager::RunPendingBy(
    ClusterCoordinator* coordinator, const FindFunction& find) {
  std::vector<RemoteValue> values;
  if (!state_->found) return values;
  std::vector<const RemoteFunction*> of_closure;
  for (const checkpoint::CheckpointClosure& closure : state_->manifest.closures) {
    ASSIGN_OR_RETURN(const RemoteFunction* function, find(closure));
    if (function == nullptr) {
      return absl::NotFoundError(absl::StrCat("closure ", closure.id, " of ", state_->path,
                                              " is of a function '", closure.function,
                                              "' that this program does not have"));
    }
    of_closure.push_back(function);
  }
  for (size_t i = 0; i < of_closure.size(); ++i) {
    values.push_back(coordinator->ScheduleResumed(*of_closure[i], state_->manifest.closures[i]));
  }
  return values;
}

absl::Status CheckpointManager::Lock(const std::string& cluster, absl::Duration wait) {
  if (state_->options.directory.empty())
    return absl::InvalidArgumentError("no checkpoint directory given");
  RETURN_IF_ERROR(CheckPath(state_->options.directory));
  if (state_->locked) return absl::OkStatus();
  RETURN_IF_ERROR(state_->files->MakeDirs(state_->options.directory));
  if (!state_->newest) RETURN_IF_ERROR(state_->LookAtCheckpoints());
  const absl::Time deadline = absl::Now() + wait;
  while (true) {
    auto lock = checkpoint::LockCheckpoints(state_->files, state_->options.directory,
                                            state_->Me(cluster, /*epoch=*/0));
    if (const auto has_it = holder(); !lock.ok() && has_it.cluster == cluster) {
      state_->holder_epoch = has_it.epoch;
    }
    if (lock.ok()) {
      state_->locked = true;
      state_->options.lock = *std::move(lock);
      return absl::OkStatus();
    }
    if (!absl::IsUnavailable(lock.status()) || absl::Now() >= deadline) return lock.status();
    absl::SleepFor(kLockPoll);  // nothing tells when a process ends
  }
}

checkpoint::CheckpointHolder CheckpointManager::holder() const {
  return checkpoint::ReadCheckpointHolder(state_->files.get(), state_->options.directory);
}

absl::Status CheckpointManager::TryDirectory(const Cluster& cluster) {
  RETURN_IF_ERROR(WaitForStatus(
      [&](auto done) {
        cluster.controller()->TryCheckpointDirectory(state_->options.directory, std::move(done));
      },
      WaitReporter(cluster).For("tasks to try the directory of checkpoints")));
  state_->tried = true;
  return absl::OkStatus();
}

absl::Status CheckpointManager::State::LookAtCheckpoints() {
  ASSIGN_OR_RETURN(const auto there, checkpoint::ListCheckpoints(files.get(), options.directory));
  newest = there.empty() ? 0 : there[0].number;
  return absl::OkStatus();
}

// What is there is numbered on, and removed in time. That is for the run that goes on from it, and
// not for another one: neither where whoever had the cluster meanwhile has gone on, and may even be
// over, nor where the program has not restored it.
absl::Status CheckpointManager::State::CheckDirectory() const {
  ASSIGN_OR_RETURN(const auto there, checkpoint::ListCheckpoints(files.get(), options.directory));
  if (there.empty()) return absl::OkStatus();
  const std::string name = checkpoint::CheckpointName(there[0].number);
  if (newest && there[0].number > *newest) {
    return WithDetail(
        absl::UnavailableError(absl::StrCat(
            options.directory, " has got ", name,
            " of another coordinator since this one looked; start again, and go on from that")),
        {ErrorCause::kClusterHeld, false, "", 0});
  }
  if (restored != 0 || options.begin_anew) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      options.directory, " has checkpoints of an earlier run, the newest is ", name,
      ", and this program has not restored one: go on from it (Find, and Restore before the first ",
      "variable), name another directory, or begin anew beside them ",
      "(CheckpointOptions::begin_anew)"));
}

// Later checkpoints would lack them, and in time the last one that has them goes.
absl::Status CheckpointManager::State::CheckLeftOver(const Cluster& on) const {
  std::vector<std::string> left;
  for (const std::string& name : on.catalog()->LayoutLeftOver()) {
    if (options.dropped.count(name) == 0) left.push_back(absl::StrCat("'", name, "'"));
  }
  if (left.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      path.empty() ? "the checkpoint" : path,
      " has variables that this program has not created: ", absl::StrJoin(left, ", "),
      "; create them before Start, under another name by the names that ",
      "are given to Restore, or name those that are dropped (CheckpointOptions::dropped)"));
}

absl::Status CheckpointManager::Start(const Cluster& cluster, std::function<std::string()> state) {
  if (state_->cluster != nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "CheckpointManager::Start was called before, for ", state_->options.directory));
  }
  RETURN_IF_ERROR(CheckPath(state_->options.directory));
  // Before the lock: it could be taken from the manager that has started.
  RETURN_IF_ERROR(
      WaitForStatus([&](auto done) { cluster.controller()->CheckNoCheckpoints(std::move(done)); }));
  RETURN_IF_ERROR(state_->CheckLeftOver(cluster));
  const std::string& daemons = cluster.identity();
  if (daemons.empty()) {
    RETURN_IF_ERROR(Lock(daemons, absl::ZeroDuration()));
  } else {
    RETURN_IF_ERROR(state_->files->MakeDirs(state_->options.directory));
    // From a coordinator that the daemons have let go of, too.
    ASSIGN_OR_RETURN(state_->options.lock,
                     checkpoint::TakeCheckpoints(state_->files, state_->options.directory,
                                                 state_->Me(daemons, cluster.controller()->epoch()),
                                                 state_->options.lock));
    state_->locked = true;
  }
  RETURN_IF_ERROR(state_->CheckDirectory());
  if (!state_->tried) RETURN_IF_ERROR(TryDirectory(cluster));
  RETURN_IF_ERROR(WaitForStatus(
      [&](auto done) {
        cluster.controller()->StartCheckpoints(state_->options, std::move(state), std::move(done));
      },
      WaitReporter(cluster).For("the directory of checkpoints to be listed")));
  state_->cluster = std::make_unique<Cluster>(cluster);
  return absl::OkStatus();
}

absl::Status CheckpointManager::Save() {
  if (state_->cluster == nullptr) {
    return absl::FailedPreconditionError("CheckpointManager::Start was not called");
  }
  const absl::Status saved =
      WaitForValue<checkpoint::Manifest>(
          [this](auto done) { state_->cluster->controller()->Checkpoint(std::move(done)); },
          WaitReporter(*state_->cluster).For("a checkpoint"))
          .status();
  // Not to be tried again, and whatever the program writes at its end is the other one's.
  const auto& options = state_->options;
  if (!saved.ok() && options.lock != nullptr && !options.lock->Held()) {
    return core::TakenOver(options.directory);
  }
  return saved;
}

}  // namespace coxswain
