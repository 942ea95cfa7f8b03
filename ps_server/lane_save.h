// One save of shards in several lanes: each lane cuts and writes its own shards.
//
// All lanes cut at the same time, each in a task of its own; snapshots need no common moment. Then
// lanes write their files, on at most half of the pool's threads, so that the others can run steps.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "protos/control.pb.h"
#include "ps_server/lane.h"
#include "runtime/cluster/pending_tasks.h"
#include "runtime/env/env.h"
#include "runtime/trace/recorder.h"

namespace coxswain::ps {

// Thread model: the daemon's loop. All arguments must outlive the tasks; when `tasks` was closed,
// the save stops, and `done` is not called.
class LaneSave : public std::enable_shared_from_this<LaneSave> {
 public:
  // Called once, on the loop, when no task of the save runs any more. Shards are in the order of
  // the request. Errors: those of ShardSaver; the argument of Stop.
  using Done = absl::AnyInvocable<void(absl::StatusOr<proto::ShardsSaved>)>;

  LaneSave(env::Env* env, env::EventLoop* loop, cluster::PendingTasks* tasks,
           trace::TraceRecorder* trace, proto::SaveShards request);

  // `lane_of` returns the lane of each shard of the request. Lanes must not have a saver.
  void Start(absl::FunctionRef<Lane*(ShardId)> lane_of, Done done);
  // Drops the cut; the save ends with the error `why` as soon as the current chunks are written.
  void Stop(const absl::Status& why);

  const std::string& directory() const { return request_.directory(); }
  bool stopped() const { return !status_.ok(); }

 private:
  // The part of one lane.
  struct OfLane {
    Lane* lane = nullptr;
    proto::SaveShards request;
    proto::ShardsSaved saved;
  };

  void Cut(size_t lane, cluster::PendingTasks::Token token);  // in the lane
  void Write(size_t lane);                                    // in the lane
  void OnCut(const absl::Status& status);
  void OnWritten(size_t lane, absl::StatusOr<proto::ShardsSaved> saved);
  void WriteNext();
  void Finish();

  env::Env* const env_;
  env::EventLoop* const loop_;
  cluster::PendingTasks* const tasks_;
  trace::TraceRecorder* const trace_;
  const proto::SaveShards request_;
  const absl::Duration began_;
  Done done_;
  std::vector<OfLane> lanes_;
  size_t to_cut_ = 0;  // numbers of lanes that are not cut yet, and that are not written yet
  size_t to_write_ = 0;
  size_t next_ = 0;      // the next lane to begin writing
  absl::Status status_;  // the first error
};

}  // namespace coxswain::ps
