// The PS daemon: keeps shards for a coordinator's session and runs segments of steps for workers.
//
// Recovery. SetupPs begins a new generation of the cluster's layout: shards that are not kept are
// dropped, what was being made, restored or saved before ends with an error, and frames of workers
// that were set up for another generation close their connection. So nothing that was sent before
// a recovery arrives after it.
//
// Thread model: all shards belong to the daemon's loop. A segment runs on the thread that brought
// its frame, when the loop is idle; so a frame costs no wake-up beyond the transport's own. New
// shards are filled, and files are read and written, on the pool: that may take seconds, in which
// the lease must be kept.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ps_server/shard_file.h"
#include "ps_server/shard_saver.h"
#include "ps_server/shard_store.h"
#include "runtime/cluster/daemon.h"
#include "runtime/cluster/pending_tasks.h"
#include "runtime/function/executor.h"
#include "runtime/function/frame.h"

namespace coxswain {

class PsService final : public Daemon {
 public:
  // `registry` has all ops. All three must outlive the service.
  PsService(Env* env, Transport* transport, const OpRegistry* registry, DaemonOptions options);
  // Waits for what is on the pool; a save stops at its present chunk.
  ~PsService() override;

 protected:
  void OnSessionStart(Peer* coordinator) override;
  void OnSessionEnd() override;
  void OnControl(const proto::ControlRequest& request, Message message, Reply reply) override;
  void OnData(Peer* peer, Message message) override;
  void OnLowWater(ClosureId closure) override { store_.SetLowWater(closure); }
  void FillStatus(proto::TaskStatus* status) override;

 private:
  using Segments = std::vector<std::shared_ptr<const CompiledFunction>>;
  // When a request came that takes time: it may be overtaken by another session or generation.
  struct Ticket {
    Epoch epoch = 0;
    uint64_t setup = 0;
  };
  struct Restore;
  struct WaitingSave {
    proto::SaveShards request;
    Reply reply;
  };

  absl::Status SetupPs(const proto::SetupPs& request);
  // Ends what is under way for the setup as it was.
  void EndSetup();
  Ticket MakeTicket() const { return {gate().epoch(), setup_}; }
  absl::Status CheckTicket(const Ticket& ticket) const;
  absl::Status Overtaken() const;

  void CreateShards(const proto::CreateShards& request, Reply reply);
  void OnShardsMade(const Ticket& ticket,
                    absl::StatusOr<std::vector<std::unique_ptr<Shard>>> shards, const Reply& reply);
  void RestoreShards(const proto::RestoreShards& request, Reply reply);
  void OnShardsRead(Restore* restore);
  void SaveShards(const proto::SaveShards& request, Reply reply);
  void StartSave(const proto::SaveShards& request, const Reply& reply);
  void OnSaved(absl::StatusOr<proto::ShardsSaved> saved, const Reply& reply);
  // Whether the shard is there already, with the same spec: the request may have been sent again.
  // Errors: AlreadyExists with another one.
  absl::StatusOr<bool> HasShard(const proto::ShardSpec& spec) const;
  absl::Status AddPlan(const proto::RegisterPlan& request);
  void ReadRows(const proto::ReadRows& request, const Reply& reply);
  static void ReadIds(const Shard& shard, const proto::ReadRows& request, const Reply& reply);
  absl::Status WriteRows(const proto::WriteRows& request, const Message& message);
  // Why frames of this worker are refused, if they are.
  absl::Status CheckGeneration(const Peer& worker) const;
  // Nothing: the connection is closed.
  std::optional<SegmentReply> AnswerFrame(Peer* peer, Message message);
  absl::StatusOr<std::vector<Tensor>> RunSegment(SegmentRequest request);

  const OpRegistry* registry_;
  ShardStore store_;
  absl::flat_hash_map<PlanId, Segments> plans_;
  uint64_t frames_answered_ = 0;
  Generation generation_ = 0;  // 0 until the session's first SetupPs
  uint64_t setup_ = 0;         // counts sessions and setups
  std::shared_ptr<ShardSaver> saver_;
  // Came while a save of an older setup was writing its last chunk.
  std::optional<WaitingSave> waiting_save_;
  PendingTasks tasks_;
};

}  // namespace coxswain
