// The PS daemon: keeps shards for a coordinator's session and runs segments of steps for workers.
//
// Thread model: all shards belong to the daemon's loop. A segment runs on the thread that brought
// its frame, when the loop is idle; so a frame costs no wake-up beyond the transport's own. New
// shards are filled on the pool: that may take seconds, in which the lease must be kept.
#pragma once

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "ps_server/shard_store.h"
#include "runtime/cluster/daemon.h"
#include "runtime/function/executor.h"
#include "runtime/function/frame.h"

namespace coxswain {

class PsService final : public Daemon {
 public:
  // `registry` has all ops. All three must outlive the service.
  PsService(Env* env, Transport* transport, const OpRegistry* registry, DaemonOptions options);
  // Waits for the shards that are being filled.
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

  void CreateShards(const proto::CreateShards& request, Reply reply);
  void OnShardsMade(Epoch epoch, absl::StatusOr<std::vector<std::unique_ptr<Shard>>> shards,
                    const Reply& reply);
  // Whether the shard is there already, with the same spec: the request may have been sent again.
  // Errors: AlreadyExists with another one.
  absl::StatusOr<bool> HasShard(const proto::ShardSpec& spec) const;
  absl::Status AddPlan(const proto::RegisterPlan& request);
  void ReadRows(const proto::ReadRows& request, const Reply& reply);
  absl::Status WriteRows(const proto::WriteRows& request, const Message& message);
  absl::StatusOr<std::vector<Tensor>> RunSegment(SegmentRequest request);

  const OpRegistry* registry_;
  ShardStore store_;
  absl::flat_hash_map<PlanId, Segments> plans_;
  uint64_t segments_run_ = 0;

  // Work on the pool that refers to this object.
  absl::Mutex mu_;
  int tasks_out_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace coxswain
