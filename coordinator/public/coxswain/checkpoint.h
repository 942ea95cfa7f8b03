// Checkpoints of a program: what it has on the parameter servers, saved while it runs, so that it
// can go on after its own end.
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
// The first start and the tenth run the same lines. A checkpoint stops nobody: it holds every
// closure up to some point, and those behind that point which a shard may lack. RunPending runs
// these again, and the shards that have them drop them; no other closure may be scheduled before.
// Where the program was in its data is saved with the closures that it had scheduled: after Restore
// PerWorkerDataset::NextTicket goes on there, and each example is visited once an epoch however
// often the program is killed. Of data that comes another way: next_closure() - 1 closures
// were scheduled then, in all sessions, those that only read included; a program whose n-th closure
// follows from n goes on with that number. `state` is for what need not fit that exactly: it is
// asked for at that moment too, but the program may just be between a Schedule and what it notes of
// it. Assign, WriteShard and WriteIds may come at any time, before Start too (a warm start); a
// checkpoint that has a closure has what was assigned before it. Until the first checkpoint that
// has it is written, which the next closure begins, the loss of its PS ends the program.
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
  // Shards move when a PS has more than this times the mean access, or nothing at all, ...
  double uneven = 1.25;
  // ... and when the moves take at least this part off the share of the one that has most.
  double gain = 0.1;
  // Fewer rows than this, read or updated, say nothing about access.
  double min_rows = 100000;
  int most_moves = 64;
  // The pauses in which shards move take no larger part of the time than this.
  double pause_share = 0.02;
};

struct CheckpointOptions {
  std::string directory = {};                // reachable by the coordinator and all PS
  std::string job = {};                      // its name, for people
  std::shared_ptr<env::FileLock> lock = {};  // on the directory; null: none
  absl::Duration every = absl::Seconds(60);  // zero: not by time
  int64_t every_steps = 0;                   // 0: not by steps
  int keep = 3;
  // Of a table only the rows are written that were touched since an older checkpoint, to which the
  // rest is linked; until that would be more files or a larger share of the whole than this. 0
  // files: all is written every time.
  int max_deltas = 8;
  double max_delta_share = 0.5;
  // Whether shards move to other PS when these are used unevenly, or one of them holds nothing.
  // They do so at checkpoints that come by time or by steps: nothing runs while that one is written
  // and the shards that move are read from it.
  bool rebalance = true;
  BalanceRules balance = {};
  // For tests: called in place of ChooseMoves.
  std::function<std::map<uint32_t, int>(const std::set<int>& there,
                                        const std::vector<core::PlacedShard>& shards)>
      choose_moves = {};
};

class CheckpointManager {
 public:
  // The directory is one that this program and all PS can reach under the same path; what is
  // missing of it is made. A relative one starts at the working directory.
  explicit CheckpointManager(CheckpointOptions options);
  CheckpointManager(CheckpointManager&&) noexcept;
  CheckpointManager& operator=(CheckpointManager&&) noexcept;
  ~CheckpointManager();

  // Looks for the newest checkpoint that is whole; none in the directory is no error.
  // `usable`: may turn one down by its manifest. skipped() has what was wrong with newer ones.
  // A program that resumes calls it twice: for min_epoch, and again when it has the cluster, for
  // the coordinator that held it until then may have written newer ones and removed this one.
  // Errors: DataLoss when there are some and none of them is good; those of the file system.
  using Usable = std::function<absl::Status(const checkpoint::Manifest&)>;
  absl::Status Find(const Usable& usable = nullptr);
  bool found() const;
  // Only when found.
  const std::string& path() const;  // the checkpoint's own directory
  // What Start's `state` gave.
  const std::string& state() const;
  // next_closure() - 1 closures were scheduled then, in all sessions.
  uint64_t next_closure() const;
  const checkpoint::Manifest& manifest() const;  // within Coxswain
  const std::vector<absl::Status>& skipped() const;

  // For ClusterOptions: newer than the session that wrote the checkpoint. 0 when none was found.
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
  // Errors: NotFound for a function that is not given.
  absl::StatusOr<std::vector<RemoteValue>> RunPending(ClusterCoordinator* coordinator,
                                                      const std::vector<RemoteFunction>& functions);
  // Within Coxswain. The same, with the function that is found for each; null: there is none.
  using FindFunction =
      std::function<absl::StatusOr<const RemoteFunction*>(const checkpoint::CheckpointClosure&)>;
  absl::StatusOr<std::vector<RemoteValue>> RunPendingBy(ClusterCoordinator* coordinator,
                                                        const FindFunction& find);

  // Keeps other jobs out of the directory, as Start does, but before there is a cluster; `cluster`:
  // ClusterIdentity of the one that will be there, if it is one of daemons. Waits until `wait` is
  // over for a job that is ending.
  // Errors: Unavailable with cause kClusterHeld, naming the job that has it; those of the file
  // system.
  absl::Status Lock(const std::string& cluster, absl::Duration wait);
  // Who keeps, or kept, Lock from it.
  checkpoint::CheckpointHolder holder() const;

  // Finds out whether all parameter servers that are there can write into the directory, and that
  // it is the same for them as here; the earlier, the less is done in vain. Errors:
  // FailedPrecondition with cause kConfiguration, naming each task that cannot, its address, and
  // why. A PS that is lost meanwhile and a full disk are none.
  absl::Status TryDirectory(const Cluster& cluster);

  // Begins to write checkpoints by the options' interval; keeps the cluster from now on. `state` is
  // called for each, on a thread of the runtime: it must not block and returns a JSON object, which
  // is state() later. Locks the directory until this object and all copies of the
  // cluster are gone; takes the lock from an older coordinator of the same cluster. Errors: as
  // Lock; those of TryDirectory, which it calls unless that was done.
  absl::Status Start(const Cluster& cluster, std::function<std::string()> state = nullptr);
  // Writes one now and waits for it. Errors: FailedPrecondition before Start, and, naming table and
  // id, when weights or optimizer state of a trained variable are NaN or infinite: these are never
  // saved, and end the session (see docs/failures.md); Unavailable when a PS is lost meanwhile;
  // ResourceExhausted for a full disk; others of file systems.
  absl::Status Save();

  const CheckpointOptions& options() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace coxswain
