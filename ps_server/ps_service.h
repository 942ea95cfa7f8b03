// The PS daemon: holds shards for a coordinator's session and runs segments of steps for workers.
//
// Recovery. SetupPs begins a new generation of the cluster's layout: shards that are not kept are
// dropped, fills, restores and saves under way end with an error, and frames of workers that were
// set up for another generation close their connection. So nothing that was sent before a recovery
// is applied after it.
//
// Thread model: a shard belongs to one of the PS's lanes (lane.h) for its whole life. The daemon's
// loop knows all shards and their lanes, and passes requests on to these. A worker's frame does not
// go through the loop: the thread that received it checks it with the last PsDirectory that the
// loop has published, and posts its pieces to the lanes of their shards; it runs short pieces
// itself. A set-up and the end of a session are tasks of every lane, and are over when all lanes
// have done them; a piece checks in its lane whether that has been set up again since its frame was
// checked. New shards are filled, and files are read and written, on the pool: this may take
// seconds, during which the lease must be kept.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "ps_server/device_rows.h"
#include "ps_server/lane_save.h"
#include "ps_server/ps_frame.h"
#include "ps_server/shard_file.h"
#include "runtime/base/pace.h"
#include "runtime/base/published.h"
#include "runtime/cluster/daemon.h"

namespace coxswain::ps {

class PsService final : public cluster::Daemon {
 public:
  // `registry` has all ops. All three arguments must outlive the service. `lanes` 0: as many as the
  // pool has threads.
  PsService(env::Env* env, net::Transport* transport, const graph::OpRegistry* registry,
            cluster::DaemonOptions options, int lanes = 0);
  // Waits for tasks on the pool; a save stops after its current chunk.
  ~PsService() override;

 protected:
  void OnSessionStart(Peer* coordinator) override;
  void OnSessionEnd() override;
  void OnControl(const proto::ControlRequest& request, net::Message message, Reply reply) override;
  void OnData(Peer* peer, net::Message message) override;
  bool TakeData(Peer* peer, net::Message* message) override;
  std::shared_ptr<Peer> NewPeer() override;
  void OnLowWater(ClosureId closure) override;
  void FillStatus(proto::TaskStatus* status) override;
  void SendStatus(const proto::StatusQuery& query, proto::TaskStatus status,
                  const Reply& reply) override;
  void SendMetrics(proto::TaskStatus status, const MetricsDone& done) override;

 private:
  struct PsPeer;
  struct Plan {
    std::vector<std::shared_ptr<const function::CompiledFunction>> segments;
    std::shared_ptr<const LanePlan> cut;
  };
  // The loop's view of a shard.
  struct KnownShard {
    int lane = 0;
    int64_t bytes = 0;  // when it was created
    std::string spec;
  };
  // The session and generation in which a long request arrived; others may begin before it ends.
  struct Stamp {
    SessionId session = 0;
    uint64_t setup = 0;
  };
  struct Restore;
  // What a lane knows, for a status.
  struct OfLane;
  struct WaitingSave {
    proto::SaveShards request;
    Reply reply;
  };

  // Runs `task` in every lane, and then `done`, if there is one, on the loop. When the service
  // ends, `done` does not run, and perhaps not all tasks. `is_long`: the task may take milliseconds
  // or more, for example to free the memory of shards.
  void InEveryLane(std::function<void(Lane*)> task, absl::AnyInvocable<void()> done = nullptr,
                   bool is_long = false);
  // Calls `then` on the loop with the status and what the lanes filled in. `staleness`: of shards.
  void AskLanes(bool staleness, proto::TaskStatus status,
                std::function<void(proto::TaskStatus status, WorkDone done)> then);
  // Publishes the state for frames, with plans cut for the current lanes of the shards.
  void Publish();

  void SetupPs(const proto::SetupPs& request, Reply reply);
  // Ends requests under way for the previous setup.
  void EndSetup();
  Stamp MakeStamp() const { return {gate().session(), setup_}; }
  absl::Status CheckStamp(const Stamp& stamp) const;
  absl::Status Overtaken() const;
  absl::Status AddPlan(const proto::RegisterPlan& request);
  void ApplyStep(const proto::ApplyStep& request, Reply reply);

  // ps_shards.cc
  int LaneOf(ShardId shard) const;  // -1: the shard does not exist
  // Errors: NotFound.
  absl::StatusOr<Lane*> FindLane(ShardId shard) const;
  // Calls `then` on the loop when the shards that are removed now have given back their memory and
  // their files, which those that are made next may need.
  void AfterRemovals(absl::AnyInvocable<void()> then);
  void MakeShards(const Stamp& stamp, std::vector<proto::ShardSpec> specs, Reply reply);
  void ReadShards(const std::shared_ptr<Restore>& restore, const proto::RestoreShards& request);
  // Adds the shard to the lane of the shard with its id, or to the lane with the fewest bytes.
  void AddShard(LoadedShard added);
  // Whether the shard exists already with the same spec: the request may have been sent again.
  // Errors: AlreadyExists with another spec.
  absl::StatusOr<bool> HasShard(const proto::ShardSpec& spec) const;
  void CreateShards(const proto::CreateShards& request, Reply reply);
  // Why a shard was not made: by what was asked for (FailedPrecondition: a GPU), or by other
  // things.
  absl::Status Unmade(const absl::Status& why) const;
  void OnShardsMade(const Stamp& stamp, absl::StatusOr<std::vector<std::unique_ptr<Shard>>> shards,
                    const Reply& reply);
  void RestoreShards(const proto::RestoreShards& request, Reply reply);
  void OnShardsRead(Restore* restore);
  void SaveShards(const proto::SaveShards& request, Reply reply);
  void StartSave(const proto::SaveShards& request, const Reply& reply);
  void OnSaved(absl::StatusOr<proto::ShardsSaved> saved, const Reply& reply);
  void TryDirectory(const proto::TryDirectory& request, Reply reply);
  void ReadRows(const proto::ReadRows& request, const Reply& reply);
  void WriteRows(const proto::WriteRows& request, net::Message message, const Reply& reply);

  // The peer is a worker.
  void RunFrame(PsPeer* peer, net::Message message, bool counted);

  const graph::OpRegistry* registry_;
  RowDevices row_devices_;  // of shards, in whichever lane
  cluster::PendingTasks tasks_;
  FrameContext frames_;
  Published<PsDirectory> directory_;
  std::map<ShardId, KnownShard> shards_;
  absl::flat_hash_map<PlanId, Plan> plans_;
  Generation generation_ = 0;  // 0 until the session's first SetupPs
  uint64_t setup_ = 0;         // counts sessions and setups
  Pace apply_pace_;            // of steps with backups, in a lane
  std::shared_ptr<LaneSave> save_;
  // A save request that arrived while a save of an older setup was writing its last chunk.
  std::optional<WaitingSave> waiting_save_;
};

}  // namespace coxswain::ps
