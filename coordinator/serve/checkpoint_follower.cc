// Finding newer checkpoints; loading one of them; the choice of a request.
#include "coordinator/serve/checkpoint_follower.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/model/saved_inputs.h"
#include "coordinator/model/unreplaced.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"

namespace coxswain::serve {
namespace {

// Whether trying again without a change would fail again.
bool IsFinal(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsFailedPrecondition(status) ||
         absl::IsInvalidArgument(status);
}

}  // namespace

CheckpointFollower::CheckpointFollower(std::string directory, env::FileSystem* files, Events events)
    : directory_(std::move(directory)), files_(files), events_(std::move(events)) {}

CheckpointFollower::~CheckpointFollower() {
  ending_.Notify();
  if (thread_.joinable()) thread_.join();
}

void CheckpointFollower::Start(absl::Duration every) {
  thread_ = std::thread([this, every] {
    do {
      Look();
    } while (!ending_.WaitForNotificationWithTimeout(every));
  });
}

std::string CheckpointFollower::IdentityOf(uint64_t number) const {
  const std::string manifest =
      absl::StrCat(directory_, "/", checkpoint::CheckpointName(number), "/manifest.json");
  const std::string inputs =
      absl::StrCat(model::InputsOf(directory_), "/", model::kSavedInputs.file);
  return absl::StrCat(model::FileIdentity(manifest), " ", model::FileIdentity(inputs));
}

std::string CheckpointFollower::FilesOf(const Found& found) const {
  const std::string path = absl::StrCat(directory_, "/", checkpoint::CheckpointName(found.number));
  return absl::StrCat(found.identity, "\n", model::FilesIdentity(path));
}

std::vector<CheckpointFollower::Found> CheckpointFollower::FindNewer() {
  auto newer = model::NewerCheckpoints(files_, directory_, served_,
                                       [this](uint64_t number) { return IdentityOf(number); });
  if (newer.ok()) return *std::move(newer);
  Tell(newer.status());
  return {};
}

void CheckpointFollower::Tell(const absl::Status& status) {
  if (told_ == status.message()) return;
  told_ = std::string(status.message());
  events_.on_error(status);
}

absl::Status CheckpointFollower::Load(const Found& found) {
  const std::string path = absl::StrCat(directory_, "/", checkpoint::CheckpointName(found.number));
  auto served = LoadServedCheckpoint(
      {.directory = directory_, .number = found.number, .tables = tables_, .inputs = inputs_},
      &histories_);
  if (!served.ok() && !files_->Exists(path)) {
    return absl::UnavailableError(absl::StrCat(path, " was removed while it was read"));
  }
  RETURN_IF_ERROR(served.status());
  served_ = found;
  version_ = (*served)->version;
  told_.clear();
  events_.on_version(*std::move(served), path);
  return absl::OkStatus();
}

void CheckpointFollower::Look() {
  absl::MutexLock lock(&mutex_);
  if (!following_) return;
  for (const Found& found : FindNewer()) {
    const auto bad = bad_.find(found.number);
    const std::string files = FilesOf(found);  // before they are read: they may come just now
    if (bad != bad_.end() && bad->second == files) continue;
    const absl::Status loaded = Load(found);
    if (loaded.ok()) {
      bad_.clear();
      return;
    }
    if (IsFinal(loaded)) bad_[found.number] = files;
    Tell(loaded);
  }
}

absl::StatusOr<VersionInUse> CheckpointFollower::Use(std::optional<int64_t> version) {
  if (!version) {
    {
      absl::MutexLock lock(&mutex_);
      following_ = true;
      served_.reset();  // the newest differs from the chosen one
      bad_.clear();
    }
    Look();
    absl::MutexLock lock(&mutex_);
    return VersionInUse{version_, following_};
  }
  absl::MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(const auto entries, checkpoint::ListCheckpoints(files_, directory_));
  std::set<int64_t> there;
  for (const checkpoint::CheckpointEntry& entry : entries) {
    if (!entry.manifest.ok()) continue;
    if (entry.manifest->steps_done() != *version) {
      there.insert(entry.manifest->steps_done());
      continue;
    }
    RETURN_IF_ERROR(Load({entry.number, IdentityOf(entry.number)}));
    following_ = false;
    return VersionInUse{version_, following_};
  }
  return absl::NotFoundError(absl::StrCat("there is no checkpoint of ", *version, " steps in ",
                                          directory_, ", but of ",
                                          there.empty() ? "none" : absl::StrJoin(there, ", ")));
}

}  // namespace coxswain::serve
