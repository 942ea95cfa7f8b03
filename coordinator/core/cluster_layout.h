// Which PS has which shard, which shards must be restored from a checkpoint, and the requests to a
// PS for that. Does no I/O. Owned by the coordinator's loop.
#pragma once

#include <algorithm>
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

  // Creates shards, each on a PS of `there` that was not given up. Errors: AlreadyExists;
  // InvalidArgument when the checkpoint has a shard with another shape. After an error nothing has
  // changed.
  struct Creation {
    std::vector<ShardId> shards;
    // By PS: the requests that create or restore the shards.
    std::map<int, std::vector<proto::ControlRequest>> requests;
    std::map<ShardId, uint64_t> from;  // number of the checkpoint; 0: none
    bool has_values() const {
      return std::any_of(from.begin(), from.end(), [](const auto& f) { return f.second != 0; });
    }
  };
  // `from`: null: all are new.
  absl::StatusOr<Creation> Create(std::vector<proto::ShardSpec> shards, const RestorePoint* from,
                                  const std::set<int>& there);
  // The shards were created, or the creation failed.
  void Created(const Creation& creation, bool ok);
  bool creating() const { return !creating_.empty(); }
  bool creating(ShardId shard) const { return creating_.count(shard) > 0; }

  // A PS is lost. False: it held no shards, so nothing needs recovery.
  bool Lost(int ps);
  // A request to the PS was lost, so its state may be wrong.
  void Missed(int ps) { missed_.insert(ps); }
  bool missed(int ps) const { return missed_.count(ps) > 0; }
  // The PS is back with all of its state.
  void Intact(int ps);
  // Whether the PS has no shards because it was given up, or was lost while it had none.
  bool absent(int ps) const { return absent_.count(ps) > 0; }
  const std::set<int>& absent() const { return absent_; }

  // Recovery begins with these PS, which get those shards of `gone` ones that go back. Shards that
  // others were to get, and have not, stay with their own PS if that is there by now. `all`: all
  // shards go back. `point`: the source of the shards' loads. `full`: PS of `there` that keep their
  // own shards and get no others, not even those that they were given before; not all of them.
  void BeginRecovery(const std::set<int>& there, const std::set<int>& gone, bool all,
                     const RestorePoint& point, const std::set<int>& full = {});
  // These shards, which the checkpoint has, will be restored from it on other PS; no other shards
  // go back. Returns the shards that move, with their old PS.
  std::map<ShardId, int> Moves(const std::map<ShardId, int>& to, const std::set<int>& there,
                               const checkpoint::Manifest& manifest) const;
  void BeginMoves(const std::map<ShardId, int>& to, const std::map<ShardId, int>& from,
                  const std::set<int>& there);
  // Assigns the shards to their old PS again, where they have yet to be restored.
  void UndoMoves(const std::map<ShardId, int>& from);

  // Shards that are being restored from a checkpoint, or will be.
  const std::set<ShardId>& going_back() const { return going_back_; }
  // Restoring begins, in a new generation of the layout. Returns its number: answers to older
  // numbers are late.
  uint64_t BeginRestore();
  bool IsCurrent(uint64_t restore) const { return restore == restores_; }
  // The requests to a PS for that, in this order.
  std::vector<proto::ControlRequest> RestoreRequests(int ps, const RestorePoint& point) const;
  // Whether the PS was given shards of others that were not all restored yet.
  bool takes(int ps) const;
  // All shards are restored.
  void Restored() {
    going_back_.clear();
    own_ps_.clear();
  }
  // The request to a PS that may have superfluous shards.
  proto::ControlRequest KeepRequest(int ps) const;
  Generation generation() const { return generation_; }

 private:
  ShardMap shards_;
  Generation generation_ = 0;
  uint64_t restores_ = 0;
  std::set<int> absent_, missed_;
  std::set<ShardId> going_back_;
  std::set<ShardId> creating_;     // not confirmed yet
  std::map<ShardId, int> own_ps_;  // where shards were that others were given, since Restored
};

}  // namespace coxswain::core
