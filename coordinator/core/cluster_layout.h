// Which PS has which shard, which shards are to come back from a checkpoint, and what a PS is told
// so that it has what it should. Pure. Owned by the coordinator's loop.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/core/placement.h"
#include "coordinator/core/restore_points.h"
#include "coordinator/core/shard_map.h"
#include "protos/control.pb.h"
#include "runtime/base/ids.h"

namespace coxswain::core {

class ClusterLayout {
 public:
  const ShardMap& shards() const { return shards_; }
  int PsOf(ShardId shard) const { return shards_.PsOf(shard); }
  std::string VariableOf(ShardId shard) const {
    return shards_.shards().at(shard).variable().name();
  }

  // Shards that are being created, each on a PS of `there`: not on one that was given up. Errors:
  // AlreadyExists; InvalidArgument when the checkpoint has one with another shape. Then nothing has
  // changed.
  struct Creation {
    std::vector<ShardId> shards;
    // By PS: what makes or restores them.
    std::map<int, std::vector<proto::ControlRequest>> requests;
    std::map<ShardId, uint64_t> from;  // number of the checkpoint; 0: none
  };
  // `from`: null: all are new.
  absl::StatusOr<Creation> Create(std::vector<proto::ShardSpec> shards, const RestorePoint* from,
                                  const std::set<int>& there);
  // They are there, or it came to nothing.
  void Created(const Creation& creation, bool ok);
  bool creating() const { return !creating_.empty(); }

  // A PS is gone. False: it held nothing, and nobody needs it.
  bool Lost(int ps);
  // A request to it was lost: it is not as it should be.
  void Missed(int ps) { missed_.insert(ps); }
  bool missed(int ps) const { return missed_.count(ps) > 0; }
  // It is back with all that it had.
  void Intact(int ps);
  // Without shards since it was given up, or lost when it had none.
  bool absent(int ps) const { return absent_.count(ps) > 0; }
  const std::set<int>& absent() const { return absent_; }

  // Recovery begins with these PS: shards of those that are `gone` go to them. `all`: all shards go
  // back. `point`: for their loads.
  void BeginRecovery(const std::set<int>& there, const std::set<int>& gone, bool all,
                     const RestorePoint& point);
  // These shards, which the checkpoint has, are to come back from it elsewhere; nothing else does.
  // Returns those that move, with the PS that they come from.
  std::map<ShardId, int> Moves(const std::map<ShardId, int>& to, const std::set<int>& there,
                               const checkpoint::Manifest& manifest) const;
  void BeginMoves(const std::map<ShardId, int>& to, const std::map<ShardId, int>& from,
                  const std::set<int>& there);
  // They are back where they came from, and yet to come back.
  void UndoMoves(const std::map<ShardId, int>& from);

  // Shards that come back from a checkpoint, or are about to.
  const std::set<ShardId>& going_back() const { return going_back_; }
  // They are asked to, in a layout of its own. Returns a number: answers to an older one are late.
  uint64_t BeginRestore();
  bool IsCurrent(uint64_t restore) const { return restore == restores_; }
  // What a PS is told then, in this order.
  std::vector<proto::ControlRequest> RestoreRequests(int ps, const RestorePoint& point) const;
  // All are there.
  void Restored() { going_back_.clear(); }
  // What a PS is told that may have more than it should.
  proto::ControlRequest KeepRequest(int ps) const;
  Generation generation() const { return generation_; }

 private:
  ShardMap shards_;
  Generation generation_ = 0;
  uint64_t restores_ = 0;
  std::set<int> absent_, missed_;
  std::set<ShardId> going_back_;
  std::set<ShardId> creating_;  // not confirmed yet
};

}  // namespace coxswain::core
