// Checkpoints of a program: its state on the parameter servers, saved while it runs, so that it can
// go on after it was killed.
//
//   CheckpointManager checkpoints({.directory = "/shared/run1", .every = absl::Seconds(60)});
//   RETURN_IF_ERROR(checkpoints.Find());  // the newest good one, if there is any
//   ClusterOptions options;
//   options.min_epoch = checkpoints.min_epoch();
//   ASSIGN_OR_RETURN(Cluster cluster, Cluster::Connect("cluster.yaml", options));
//   RETURN_IF_ERROR(checkpoints.Find());  // until then another coordinator may have written more
//   ParameterServerStrategy strategy(cluster);
//   RETURN_IF_ERROR(checkpoints.Restore(&strategy));  // before the first variable
//   ASSIGN_OR_RETURN(EmbeddingTable users, strategy.CreateTable("users", {...}));  // as it was
//   ASSIGN_OR_RETURN(RemoteFunction step, strategy.Define("step", ...));
//   ClusterCoordinator coordinator(strategy);
//   RETURN_IF_ERROR(checkpoints.RunPending(&coordinator, {step}).status());
//   RETURN_IF_ERROR(checkpoints.Start(cluster));  // from now on every 60 s
//   while (auto ticket = ratings.NextTicket()) coordinator.Schedule(step, *ticket);
//   ...
//   RETURN_IF_ERROR(checkpoints.Save());  // or just now
//
// The first start and every restart run the same lines. A checkpoint stops no closure: it covers
// every closure up to some point, and lists the later ones that a shard may lack. RunPending runs
// these again, and the shards that have them drop them; no other closure may be scheduled before.
// The position in the data is saved with the scheduled closures: after Restore,
// PerWorkerDataset::NextTicket goes on there, and each example is visited once an epoch however
// often the program is killed. A program with another source of data can use the number of closures
// scheduled up to the checkpoint, in all sessions and including those that only read, which is
// next_closure() - 1: if its n-th closure is a function of n, it goes on with that number. `state`
// is for data that need not match this exactly: it is called at the same moment, but the program
// may be between a Schedule and the change of its own state. Assign, WriteShard and WriteIds may be
// called at any time, even before Start (a warm start); a checkpoint that has a closure has the
// values that were assigned before it. Assigned values are in no checkpoint until the next one,
// which the next closure starts. Until then the loss of their PS ends the program, and so does the
// loss of any PS with PsLossPolicy::kRollback (the default), which takes all shards back.
//
// Thread model: one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coxswain/cluster.h"
#include "coxswain/cluster_coordinator.h"
#include "coxswain/strategy.h"

namespace coxswain::checkpoint {
struct CheckpointHolder;
struct Manifest;
}  // namespace coxswain::checkpoint

namespace coxswain::core {
struct PlacedShard;
}  // namespace coxswain::core

namespace coxswain::env {
class FileLock;
}  // namespace coxswain::env

namespace coxswain {

// When shards move between parameter servers.
struct BalanceRules {
  // Shards move when a PS has more than this times the mean access, or holds no shards, ...
  double uneven = 1.25;
  // ... and when the moves reduce the largest share of access by at least this part.
  double gain = 0.1;
  // With fewer rows than this, read or updated, access is not considered.
  double min_rows = 100000;
  int most_moves = 64;
  // The pauses in which shards move take at most this part of the time.
  double pause_share = 0.02;
};

struct CheckpointOptions {
  std::string directory = {};                // reachable by the coordinator and all PS
  std::string job = {};                      // its name, for messages
  std::shared_ptr<env::FileLock> lock = {};  // on the directory; null: none
  absl::Duration every = absl::Seconds(60);  // zero: not by time
  int64_t every_steps = 0;                   // 0: not by steps
  int keep = 3;
  // Whether a program may start in a directory that has checkpoints which it has not restored. Its
  // own are numbered after these, and `keep` counts both: the last of the old ones goes when the
  // program has written `keep` of its own. Until then Find may find an old one, where the newer
  // ones are damaged or there is none yet.
  bool begin_anew = false;
  // Variables and tables of the checkpoint, by the program's names, that the program goes on
  // without: no later checkpoint has them.
  std::set<std::string> dropped = {};
  // Incremental checkpoints write only the rows of a table that were touched since an older
  // checkpoint, and link the files of that one. The whole table is written when the deltas would be
  // more files, or a larger share of the whole, than this. 0: tables are always written as a whole.
  int max_deltas = 8;
  double max_delta_share = 0.5;
  // Whether shards move to other PS when the load is uneven or a PS holds no shards. They move at
  // periodic checkpoints: no closure runs while that checkpoint is written and the moving shards
  // are read from it.
  bool rebalance = true;
  BalanceRules balance = {};
  // For tests: called in place of ChooseMoves.
  std::function<std::map<uint32_t, int>(const std::set<int>& there,
                                        const std::vector<core::PlacedShard>& shards)>
      choose_moves = {};
};

class CheckpointManager {
 public:
  // This program and all PS must be able to reach the directory under the same path; it is created
  // if it does not exist. A relative path starts at the working directory.
  explicit CheckpointManager(CheckpointOptions options);
  CheckpointManager(CheckpointManager&&) noexcept;
  CheckpointManager& operator=(CheckpointManager&&) noexcept;
  ~CheckpointManager();

  // Looks for the newest complete checkpoint; a directory without checkpoints is not an error.
  // `usable` may reject a checkpoint by its manifest. skipped() has the errors of newer ones. A
  // program that resumes calls it twice: for min_epoch, and again when it holds the cluster,
  // because the previous holder may meanwhile have written newer checkpoints and removed this one.
  // Errors: DataLoss when there are checkpoints but none is good; those of the file system.
  using Usable = std::function<absl::Status(const checkpoint::Manifest&)>;
  absl::Status Find(const Usable& usable = nullptr);
  bool found() const;
  // The following may be called only when found().
  const std::string& path() const;  // the checkpoint's own directory
  // The value that Start's `state` returned.
  const std::string& state() const;
  // next_closure() - 1 closures had been scheduled at the checkpoint, in all sessions.
  uint64_t next_closure() const;
  const checkpoint::Manifest& manifest() const;  // within Coxswain
  const std::vector<absl::Status>& skipped() const;

  // For ClusterOptions: an epoch newer than that of the session that wrote the checkpoint, and than
  // that of a coordinator of the same daemons that had the lock. 0 when there is neither.
  uint64_t min_epoch() const;
  // Variables that the strategy creates from now on have the checkpoint's values. Does nothing when
  // none was found. `renamed`: names that the program has for variables and tables which the
  // checkpoint has under others, program's to checkpoint's: {{"users", "user_table"}}; all else of
  // them stays, optimizer state too, and checkpoints from now on have the new names. Errors: those
  // of ParameterServerStrategy::UseLayout; NotFound for a name that the checkpoint does not have;
  // InvalidArgument where two variables would have one name.
  absl::Status Restore(ParameterServerStrategy* strategy,
                       const std::map<std::string, std::string>& renamed = {});
  // Schedules the closures that the checkpoint lacks, before any other closure. `functions` are
  // found by name. Returns their futures, in the order of manifest().closures.
  // Errors: NotFound for a function that is not given, InvalidArgument for two of one name.
  absl::StatusOr<std::vector<RemoteValue>> RunPending(ClusterCoordinator* coordinator,
                                                      const std::vector<RemoteFunction>& functions);
  // Within Coxswain. The same, with the function that is found for each; null: there is none.
  using FindFunction =
      std::function<absl::StatusOr<const RemoteFunction*>(const checkpoint::CheckpointClosure&)>;
  absl::StatusOr<std::vector<RemoteValue>> RunPendingBy(ClusterCoordinator* coordinator,
                                                        const FindFunction& find);

  // Keeps other jobs out of the directory, as Start does, but before the cluster exists. `cluster`
  // is the ClusterIdentity of the future cluster, if that consists of daemons. Waits for up to
  // `wait` for a job that is ending. Errors: Unavailable with cause kClusterHeld, naming the job
  // that has the lock; those of the file system.
  absl::Status Lock(const std::string& cluster, absl::Duration wait);
  // The job that holds the lock, or held it when Lock failed.
  checkpoint::CheckpointHolder holder() const;

  // Checks that all connected parameter servers can write into the directory, and that it is the
  // same directory for them as for this program. Call it early, before work that would be wasted.
  // Errors: FailedPrecondition with cause kConfiguration, naming each task that cannot, its
  // address, and why. A PS that is lost meanwhile and a full disk are not errors.
  absl::Status TryDirectory(const Cluster& cluster);

  // Starts to write checkpoints at the options' intervals; holds a copy of `cluster` from now on.
  // `state` is called for each checkpoint, on a thread of the runtime or on one that is in a call
  // of this library: it must not block, call the cluster, or take a lock that the program holds
  // while it calls the library. It returns a JSON object, which state() returns after a restart.
  // Locks the directory until this object and all copies of the cluster are gone; takes the lock
  // from an older coordinator of the same cluster. Call it once, on one manager of a cluster.
  // Errors: FailedPrecondition when this manager was started, or another one on this cluster, which
  // goes on undisturbed; FailedPrecondition when the directory has checkpoints and this manager has
  // not restored the one that Find found last, unless CheckpointOptions::begin_anew says that this
  // is right; FailedPrecondition when the restored one has variables that the program has neither
  // created by now nor named in CheckpointOptions::dropped; Unavailable with cause kClusterHeld
  // when newer ones came since Find; as Lock; those of TryDirectory, which it calls unless that was
  // done; those of listing the directory; that of the job.
  absl::Status Start(const Cluster& cluster, std::function<std::string()> state = nullptr);
  // Writes a checkpoint now and waits for it, for as long as the tasks write. With synchronous
  // steps, of which none begins meanwhile, that is at most RecoveryOptions.cluster_timeout: then it
  // fails with DeadlineExceeded. Errors: FailedPrecondition before Start; also
  // FailedPrecondition, naming table and id, when weights or optimizer state of a trained variable
  // are NaN or infinite, which are never saved and end the session (see docs/failures.md);
  // Unavailable when a PS is lost meanwhile; ResourceExhausted for a full disk; other errors of the
  // file system.
  absl::Status Save();

  const CheckpointOptions& options() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace coxswain
