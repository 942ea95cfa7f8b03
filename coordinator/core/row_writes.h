// What programs have written to shards by hand: which checkpoints have it, and which writes must
// wait. Pure. Owned by the coordinator's loop.
//
// A write is in no closure, so nothing runs it again. Until a checkpoint has it, a lost shard takes
// it along; and what was over before it must not run again after it.
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
    kGoAfterAnother  // the checkpoint under way has to begin anew first
  };
  // A write wants to go. `runs_again`: closures do, which must come before it. `gathering`: shards
  // are being saved for a checkpoint, which may have closures from after the write and not the
  // write: it begins anew, once, and then goes first.
  Way Admit(bool runs_again, bool gathering);
  void Hold(Task write) { held_.push_back(std::move(write)); }
  // Those that may try again.
  std::vector<Task> Release();

  // It was sent to the shard: checkpoints from this number on have it.
  void Sent(ShardId shard, uint64_t covered_by);
  // It is there. `next`: number of the next checkpoint; nothing: there will be none.
  void Done(ShardId shard, uint64_t covered_by, std::optional<uint64_t> next);
  // Whether a checkpoint has all that was sent to the shard.
  bool Covered(ShardId shard, uint64_t checkpoint) const;

  // Checkpoints begin with this number.
  void NumberFrom(uint64_t next);
  void CheckpointBegins() { unsaved_ = false; }
  void CheckpointFailed();
  // The one under way has ended, however.
  void CheckpointOver() { made_way_ = false; }
  // All checkpoints that count are this one or newer.
  void Trim(uint64_t oldest);
  // Something was written that no checkpoint begun so far will have.
  bool unsaved() const { return unsaved_; }
  // Whether to write a checkpoint for that now; not again once one has failed.
  bool TakeTurn();

  // By shard: the checkpoints from which on what was written is safe.
  std::map<ShardId, uint64_t> safe_from() const;

 private:
  struct Numbers {
    uint64_t sent = 0;
    std::optional<uint64_t> done;
  };
  std::map<ShardId, Numbers> written_;
  bool unsaved_ = false;
  bool may_try_ = true;    // no checkpoint has failed since it was written
  bool made_way_ = false;  // the checkpoint under way, for a write
  std::vector<Task> held_;
};

}  // namespace coxswain::core
