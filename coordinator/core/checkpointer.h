// Writes one checkpoint at a time: asks the PS to save their shards, writes the manifest, makes it
// visible, removes old ones. Nothing waits for it; training goes on meanwhile.
//
// The stages of a checkpoint: Begin; the source provides the cut and, when all shards are saved,
// the description; `done` gets the result. Its receivers keep the checkpoint if they need it for
// restores or as a base.
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

// The end of a session whose lock on the directory another coordinator has taken.
absl::Status TakenOver(const std::string& directory);

class Checkpointer : public std::enable_shared_from_this<Checkpointer> {
 public:
  struct Outcome {
    absl::Status status;
    // If the checkpoint was written.
    checkpoint::Manifest manifest;
    std::string path;
    // If the checkpoint failed: it may be visible nevertheless, so no checkpoint may be used as a
    // base.
    bool may_be_visible = false;
  };
  using DoneFn = std::function<void(const Outcome&)>;
  // The shards that one PS has to save.
  struct PsShards {
    std::shared_ptr<TaskSession> ps;
    std::vector<ShardId> shards;
    std::vector<proto::SavedShard> bases;  // for those shards that need not be written as a whole
  };
  struct Cut {
    ClosureId low_water = 0;  // every shard has all closures below
    std::vector<PsShards> of_ps;
    // Saved when all of the above are, for what those have was computed from these: fetched
    // numbers.
    std::vector<PsShards> last;
  };
  struct Source {
    // Called when the PS are asked to save.
    std::function<Cut()> cut;
    // Called when all shards are saved: fills in everything except number, low_water, shards and
    // written. Not OK: the closures that the shards lack are no longer known, and the checkpoint
    // fails.
    std::function<absl::Status(checkpoint::Manifest*)> describe;
  };

  Checkpointer(env::Env* env, std::shared_ptr<env::EventLoop> loop, const Session& session,
               CheckpointOptions options, Source source);

  // The number that comes after all in the directory: others might count as older than those that
  // are there. `then` is called on the loop. Errors: those of listing it.
  void FindNumber(std::function<void(absl::StatusOr<uint64_t>)> then);
  // The first checkpoint will have this number.
  void set_next_number(uint64_t number) { next_number_ = number; }
  uint64_t next_number() const { return next_number_; }

  // Begins a checkpoint, after the one that is under way, if any. `done` is called once.
  void Begin(DoneFn done);
  bool busy() const { return run_ != nullptr; }
  // Begins none: `done` is called with the end of the last checkpoint that was begun. There must be
  // one under way.
  void AwaitIdle(DoneFn done);
  // The number of the next checkpoint whose save requests come after any request that is sent to a
  // PS now.
  uint64_t next_to_save() const;
  // Whether the PS were asked to save the current checkpoint, and it is not described yet: a change
  // made now may be in some of its shards, and its consequences in the description.
  bool gathering() const;
  // Then, the closure below which every shard that it saves has all. 0: nothing is gathered.
  ClosureId gathers_from() const;
  // Gives up the current checkpoint, unless it is not gathering, and begins another one in its
  // place.
  void BeginAnew();
  // The current checkpoint fails with `reason`, and so do those that are to follow it: a PS is
  // lost, or the session is over. Also from within a `done`, where the current one has ended.
  void Abort(const absl::Status& reason);
  // For messages: what the current checkpoint waits for, and since when; empty when there is none.
  std::string ToString(absl::Duration now) const;
  // How long the current checkpoint has taken.
  absl::Duration age(absl::Duration now) const;

  // Looks whether the lock on the directory is still this session's: OK, or TakenOver. `then` is
  // called on the loop, at once where there is no lock: reading that file may take as long as its
  // file system likes.
  void LookForLock(std::function<void(absl::Status)> then);
  // Looks whether all files of a checkpoint are there, as far as this machine sees. `then` is
  // called on the loop. Errors: those of CheckSizes.
  void LookForFiles(const std::string& path, const checkpoint::Manifest& manifest,
                    std::function<void(absl::Status)> then);
  const CheckpointOptions& options() const { return options_; }
  const CheckpointStats& stats() const { return stats_; }
  // Of the last one that was written.
  struct Written {
    absl::Time at;       // on the wall clock
    double seconds = 0;  // that it took
  };
  const Written& last() const { return last_; }

 private:
  struct Run;

  std::string PathOf(uint64_t number) const;

  // `again`: room was made for it.
  void Start(std::vector<DoneFn> done, bool again = false);
  void Save(const std::shared_ptr<Run>& run);
  void AskToSave(const std::shared_ptr<Run>& run, const std::vector<PsShards>& of_ps);
  void OneSaved(const std::shared_ptr<Run>& run);
  void OnSaved(const std::shared_ptr<Run>& run, const TaskSession& ps,
               absl::StatusOr<TaskSession::Response> response);
  void WriteManifest(const std::shared_ptr<Run>& run);
  void Finish(const std::shared_ptr<Run>& run, absl::Status status);
  // Removes the files of a failed checkpoint; on a full disk also unfinished ones of earlier
  // sessions.
  void RemoveFilesOf(const Run& run, bool disk_full);
  // Where the disk is full, Finish makes room and tries again, once; else it ends.
  void MakeRoom(const std::shared_ptr<Run>& run, absl::Status status);
  void End(const std::shared_ptr<Run>& run, absl::Status status);
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
  Written last_;
};

}  // namespace coxswain::core
