// Follows the checkpoints that a job writes: loads each newer one as soon as it appears, while the
// previous one goes on answering. On request it stays with one of them.
//
// It lists the directory once a second. A checkpoint that cannot be served, because it is damaged,
// belongs to another job, or was removed while it was read, is reported once, and tried again when
// one of its files has come or changed; the newest one that can be served is served.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "coordinator/model/checkpoint_tables.h"
#include "coordinator/model/newer_checkpoints.h"
#include "coordinator/serve/served_model.h"
#include "runtime/env/file_system.h"

namespace coxswain::serve {

// The version that answers after a request has chosen one.
struct VersionInUse {
  int64_t version = 0;
  bool following = true;
};

class CheckpointFollower {
 public:
  struct Events {
    // Called by one thread at a time. `checkpoint`: its path.
    std::function<void(ServedPtr, const std::string& checkpoint)> on_version;
    // Reports why a checkpoint is not served; the previous one goes on answering.
    std::function<void(const absl::Status&)> on_error;
  };
  // `files` outlives it.
  CheckpointFollower(std::string directory, env::FileSystem* files, Events events);
  ~CheckpointFollower();
  CheckpointFollower(const CheckpointFollower&) = delete;
  CheckpointFollower& operator=(const CheckpointFollower&) = delete;

  // Calls Look now and every `every`, on a separate thread, until the follower is destroyed.
  void Start(absl::Duration every = absl::Seconds(1));
  // Lists the directory and loads the newest checkpoint if it is newer.
  void Look();
  // Serves the newest checkpoint of that many steps, and no newer one; or, without a version, the
  // newest one from now on. Errors: NotFound listing the existing versions; those of loading. After
  // an error nothing has changed.
  absl::StatusOr<VersionInUse> Use(std::optional<int64_t> version);

 private:
  using Found = model::SeenCheckpoint;  // identity: of its manifest and of the inputs
  std::vector<Found> FindNewer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string IdentityOf(uint64_t number) const;
  // The same, of all of its files, too.
  std::string FilesOf(const Found& found) const;
  absl::Status Load(const Found& found) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Tell(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string directory_;
  env::FileSystem* const files_;
  const Events events_;
  // Held while a checkpoint is loaded: only one is loaded at a time, so that memory is bounded.
  absl::Mutex mutex_;
  SharedHistory histories_;
  const std::shared_ptr<predict::SharedInputs> inputs_ = std::make_shared<predict::SharedInputs>();
  const std::shared_ptr<model::CheckpointTables> tables_ =
      std::make_shared<model::CheckpointTables>();
  std::optional<Found> served_ ABSL_GUARDED_BY(mutex_);
  int64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
  bool following_ ABSL_GUARDED_BY(mutex_) = true;
  std::map<uint64_t, std::string> bad_ ABSL_GUARDED_BY(mutex_);  // FilesOf, by number
  std::string told_ ABSL_GUARDED_BY(mutex_);                     // the last error that was reported
  absl::Notification ending_;
  std::thread thread_;
};

}  // namespace coxswain::serve
