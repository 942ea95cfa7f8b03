// One job at a time writes checkpoints into a directory: it holds a lock on the file ".lock" in it,
// whose content tells who that is. The lock goes with the process, also when that is killed.
//
// A job on another cluster stays out as long as the process lives. On the same cluster the daemons
// decide: who has them now goes on, and takes the lock from a coordinator that was cut off or
// stands still, which notices that before it makes another checkpoint visible. Who came later is
// told by the epochs of their sessions: one that stood still after it had got the daemons, and lost
// them meanwhile, must not take the lock from its successor, which would take it back.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/base/ids.h"
#include "runtime/env/file_system.h"

namespace coxswain::checkpoint {

struct CheckpointHolder {
  std::string host;
  int64_t pid = 0;
  std::string job;      // may be empty
  std::string cluster;  // its daemons; empty: of the process's own
  absl::Time since;
  Epoch epoch = 0;  // of its session with them; 0: it has none yet, or is of an earlier version
};

// Errors: Unavailable with cause kClusterHeld, naming who has it; those of the file system. Null
// where the file system has no locks: then nobody is kept out, which is logged.
absl::StatusOr<std::shared_ptr<env::FileLock>> LockCheckpoints(
    std::shared_ptr<env::FileSystem> files, const std::string& directory,
    const CheckpointHolder& me);
// The same, also from an older session with the same daemons. `had`: the lock that this process
// has, whose epoch was not known; may be null. The lock that is returned takes itself back from an
// older session when it is asked whether it is held, and makes its file again where somebody has
// removed that. Once it is not held, another coordinator has had the daemons, and what they hold is
// its own.
absl::StatusOr<std::shared_ptr<env::FileLock>> TakeCheckpoints(
    std::shared_ptr<env::FileSystem> files, const std::string& directory,
    const CheckpointHolder& me, const std::shared_ptr<env::FileLock>& had);

// What the holder says of itself, or the last one did; empty when nobody does.
CheckpointHolder ReadCheckpointHolder(env::FileSystem* files, const std::string& directory);

// "job 'films' (process 17 on host-a, since 2026-11-22 10:20:00)".
std::string ToString(const CheckpointHolder& holder);

}  // namespace coxswain::checkpoint
