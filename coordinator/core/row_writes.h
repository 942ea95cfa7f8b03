// Rows that programs have written to shards directly: which checkpoints have them, and which writes
// must wait. Does no I/O. Owned by the coordinator's loop.
//
// A write belongs to no closure, so it is never run again. Until a checkpoint has it, it is lost
// with its shard; and closures that were over before a write must not run again after it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "runtime/base/ids.h"

namespace coxswain::core {

class RowWrites {
 public:
  using Task = std::function<void()>;

  enum class Way : uint8_t {
    kGo,
    kHold,           // until Release
    kGoAfterAnother  // the current checkpoint must begin again first
  };
  // Whether a write may be sent. `runs_again`: closures run again, which must come before it.
  // `gathering`: shards are being saved for a checkpoint, which might have closures from after the
  // write but not the write. That checkpoint begins again, once; further writes wait for it.
  Way Admit(bool runs_again, bool gathering);
  void Hold(Task write) { held_.push_back(std::move(write)); }
  // Returns the held writes, which may try again.
  std::vector<Task> Release();

  // A write was sent to the shard: checkpoints from this number on have it.
  void Sent(ShardId shard, uint64_t covered_by);
  // The write was confirmed. `next`: number of the next checkpoint; nullopt: there will be none.
  void Done(ShardId shard, uint64_t covered_by, std::optional<uint64_t> next);
  // Whether a checkpoint has all writes that were sent to the shard.
  bool Covered(ShardId shard, uint64_t checkpoint) const;

  // Checkpoints begin with this number.
  void NumberFrom(uint64_t next);
  void CheckpointBegins() { unsaved_ = false; }
  void CheckpointFailed();
  // The current checkpoint has ended, in whatever way.
  void CheckpointOver() { made_way_ = false; }
  // Checkpoints older than this one are not restored any more.
  void Trim(uint64_t oldest);
  // Whether there is a write that no checkpoint begun so far will have.
  bool unsaved() const { return unsaved_; }
  // Whether to write a checkpoint for these writes now; not again after one has failed.
  bool TakeTurn();

  // By shard: the first checkpoint that has all writes.
  std::map<ShardId, uint64_t> safe_from() const;

 private:
  struct Numbers {
    uint64_t sent = 0;
    std::optional<uint64_t> done;
  };
  std::map<ShardId, Numbers> written_;
  bool unsaved_ = false;
  bool may_try_ = true;    // no checkpoint has failed since the write
  bool made_way_ = false;  // the current checkpoint has begun again for a write
  std::vector<Task> held_;
};

}  // namespace coxswain::core
