// Writes one checkpoint at a time: asks the PS to save their shards, writes the manifest, makes it
// visible, removes old ones. Nothing waits for it; training goes on meanwhile.
//
// A checkpoint goes one way: Begin, then the source is asked for the cut, and for the rest when all
// shards are saved, then `done` gets it. Who wants to go back to it or to build on it keeps it.
//
// Thread model: owned by the coordinator's loop; files are touched on the pool.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/core/task_session.h"
#include "coxswain/checkpoint.h"
#include "runtime/base/session_id.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/env/env.h"

namespace coxswain::core {

class Checkpointer : public std::enable_shared_from_this<Checkpointer> {
 public:
  struct Outcome {
    absl::Status status;
    // Of one that was written.
    checkpoint::Manifest manifest;
    std::string path;
    // Of one that failed: it may have become visible all the same, so nothing may build on any.
    bool may_be_visible = false;
  };
  using DoneFn = std::function<void(const Outcome&)>;
  // What one PS has to save.
  struct PsShards {
    std::shared_ptr<TaskSession> ps;
    std::vector<ShardId> shards;
    std::vector<proto::SavedShard> bases;  // of those of them that need not be written whole
  };
  struct Cut {
    ClosureId low_water = 0;  // what is below is in every shard
    std::vector<PsShards> of_ps;
  };
  struct Source {
    // When PS are asked.
    std::function<Cut()> cut;
    // When all shards are saved: fills in all but number, low_water, shards and written. Not OK:
    // what the shards lack is not known any more, and the checkpoint fails.
    std::function<absl::Status(checkpoint::Manifest*)> describe;
  };

  Checkpointer(env::Env* env, std::shared_ptr<env::EventLoop> loop, const Session& session,
               CheckpointOptions options, Source source);

  // The first checkpoint will have this number.
  void set_next_number(uint64_t number) { next_number_ = number; }
  uint64_t next_number() const { return next_number_; }

  // Begins a checkpoint; while one is under way, another one after it. `done` is called once.
  void Begin(DoneFn done);
  bool busy() const { return run_ != nullptr; }
  // What is asked of a PS from now on comes before what this one will ask of it.
  uint64_t next_to_save() const;
  // Whether PS were asked for the one under way, and it is not described yet: what is done now may
  // be in some of its shards, and what follows from that in its description.
  bool gathering() const;
  // That one is given up, and the next one begun in its place.
  void BeginAnew();
  // The one under way fails with this: a PS is lost, or the session is over.
  void Abort(const absl::Status& reason);
  // For people: what the one under way has waited for since when; empty when there is none.
  std::string ToString(absl::Duration now) const;
  // How long the one under way has taken.
  absl::Duration age(absl::Duration now) const;

  const CheckpointOptions& options() const { return options_; }
  const CheckpointStats& stats() const { return stats_; }

 private:
  struct Run;

  std::string PathOf(uint64_t number) const;

  void Start(std::vector<DoneFn> done);
  void Save(const std::shared_ptr<Run>& run);
  void OnSaved(const std::shared_ptr<Run>& run, const TaskSession& ps,
               absl::StatusOr<TaskSession::Response> response);
  void WriteManifest(const std::shared_ptr<Run>& run);
  void Finish(const std::shared_ptr<Run>& run, absl::Status status);
  // Removes what a failed one left; of a full disk also what earlier sessions left unfinished.
  void RemoveFilesOf(const Run& run, bool disk_full);
  // Runs `work` on the pool, then `then` on the loop with its result.
  void OnPool(std::function<absl::Status()> work, std::function<void(absl::Status)> then);

  env::Env* env_;
  std::shared_ptr<env::EventLoop> loop_;
  const Session session_;
  const CheckpointOptions options_;
  Source source_;
  uint64_t next_number_ = 1;
  std::shared_ptr<Run> run_;
  std::vector<DoneFn> waiting_;
  CheckpointStats stats_;
};

}  // namespace coxswain::core
