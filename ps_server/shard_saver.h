// Writes shards, as they are at one moment, to files while training goes on.
//
// The cut is copy-on-write (ShardSnapshot). Its rows are read on the loop in chunks of at most
// 4 MiB and written on the pool, one chunk at a time; so memory stays bounded and the loop is never
// busy for long.
//
// If the request has a base for a shard, only the changes since then are written. The base's files
// are linked into the new directory. The touched rows are found by examining all rows, a bounded
// number at a time. If links cannot be made, or the base is gone, the whole shard is written.
//
// The pool scans the data for weights and slots of trained variables that are NaN or infinite: a
// shard with such values is not saved, so every checkpoint is finite.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "protos/control.pb.h"
#include "ps_server/finite_scan.h"
#include "ps_server/shard_store.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/cluster/pending_tasks.h"
#include "runtime/env/env.h"

namespace coxswain::ps {

// One save. Thread model: the store's loop. All arguments must outlive the tasks.
class ShardSaver : public std::enable_shared_from_this<ShardSaver> {
 public:
  // Called once, on the loop, when no task of the save runs any more. Errors: FailedPrecondition
  // with cause kApplication, naming table and id, when a value is NaN or infinite; those of the
  // file system, naming the file; ResourceExhausted also without memory for chunks or for what
  // updates change meanwhile; the argument of Stop; Cancelled when `tasks` was closed.
  using Done = absl::AnyInvocable<void(absl::StatusOr<proto::ShardsSaved>)>;

  // Takes the cut. Errors: NotFound for a shard that is not in the store; ResourceExhausted.
  static absl::StatusOr<std::shared_ptr<ShardSaver>> Create(env::Env* env, env::EventLoop* loop,
                                                            cluster::PendingTasks* tasks,
                                                            const ShardStore& store,
                                                            const proto::SaveShards& request);
  ~ShardSaver();
  void Start(Done done);
  // Drops the cut; the save ends with the error `why` as soon as its chunk is written.
  void Stop(absl::Status why);

  const std::string& directory() const { return directory_; }
  bool stopped() const { return !stopped_.ok(); }

 private:
  struct File;
  struct Chunk;

  ShardSaver(env::Env* env, env::EventLoop* loop, cluster::PendingTasks* tasks,
             std::string directory);
  absl::Status Cut(const ShardStore& store, const proto::SaveShards& request);
  // Runs `work` on the pool and then, unless the save was stopped meanwhile, `then` on the loop.
  void OnPool(absl::AnyInvocable<absl::Status()> work,
              absl::AnyInvocable<void(const absl::Status&)> then);
  void Next();
  void FindTouched();
  // False: there are too many, all rows are to be written.
  absl::StatusOr<bool> LookForTouched(File* file);
  void LinkBase();
  absl::Status Link(const proto::SavedShard& base);  // on the pool
  void OnLinked(bool linked);
  void WriteNext();
  absl::StatusOr<Chunk> ReadChunk();
  absl::Status WriteChunk(const Chunk& chunk);  // on the pool
  absl::Status CheckFinite(const std::vector<FiniteScan::Found>& found) const;
  void OnWritten(bool last);
  void FileDone();
  void Finish(const absl::Status& status);

  env::Env* const env_;
  env::EventLoop* const loop_;
  cluster::PendingTasks* const tasks_;
  const std::string directory_;
  const absl::Duration began_;
  absl::Duration stalled_;
  absl::Status stopped_;
  Done done_;
  std::vector<File> files_;
  size_t file_ = 0;  // index of the file that is being written
  bool unsynced_links_ = false;
  std::unique_ptr<checkpoint::SafetensorsWriter>
      writer_;  // belongs to the chunk that is being written
};

}  // namespace coxswain::ps
