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
//   ...
//   RETURN_IF_ERROR(checkpoints.Save());  // or just now
//
// The first start and the tenth run the same lines. A checkpoint stops nobody: it holds every
// closure up to some point, and those behind that point which a shard may lack. RunPending runs
// these again, and the shards that have them drop them. What the program itself must remember
// (where it was in its data, say) goes into `state`.
//
// Thread model: one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/api/cluster.h"
#include "coordinator/api/cluster_coordinator.h"
#include "coordinator/api/strategy.h"
#include "coordinator/core/recovery_types.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/env/file_system.h"

namespace coxswain {

class CheckpointManager {
 public:
  // The directory is one that this program and all PS can reach under the same path; what is
  // missing of it is made. A relative one starts at the working directory.
  explicit CheckpointManager(CheckpointOptions options);

  // Looks for the newest checkpoint that is whole; none in the directory is no error.
  // `usable`: may turn one down by its manifest. skipped() has what was wrong with newer ones.
  // A program that resumes calls it twice: for min_epoch, and again when it has the cluster, for
  // the coordinator that held it until then may have written newer ones and removed this one.
  // Errors: DataLoss when there are some and none of them is good; those of the file system.
  using Usable = std::function<absl::Status(const Manifest&)>;
  absl::Status Find(const Usable& usable = nullptr);
  bool found() const { return found_; }
  // Only when found.
  const Manifest& manifest() const { return manifest_; }
  const std::string& path() const { return path_; }  // the checkpoint's own directory
  const std::vector<absl::Status>& skipped() const { return skipped_; }

  // For ClusterOptions: newer than the session that wrote the checkpoint. 0 when none was found.
  Epoch min_epoch() const { return found_ ? manifest_.epoch + 1 : 0; }
  // Variables that the strategy creates from now on have the checkpoint's values. Does nothing when
  // none was found. Errors: those of ParameterServerStrategy::UseLayout.
  absl::Status Restore(ParameterServerStrategy* strategy);
  // Schedules the closures that the checkpoint lacks, before any other closure. `functions` are
  // found by name. Returns their futures, in the order of manifest().closures.
  // Errors: NotFound for a function that is not given.
  absl::StatusOr<std::vector<RemoteValue>> RunPending(ClusterCoordinator* coordinator,
                                                      const std::vector<RemoteFunction>& functions);

  // Begins to write checkpoints by the options' interval; keeps the cluster from now on. `state` is
  // called for each, on a thread of the runtime: it must not block and returns a JSON object, which
  // is manifest().job_state later.
  absl::Status Start(const Cluster& cluster, std::function<std::string()> state = nullptr);
  // Writes one now and waits for it. Errors: FailedPrecondition before Start; Unavailable when a PS
  // is lost meanwhile; ResourceExhausted for a full disk; others of file systems.
  absl::Status Save();

  const CheckpointOptions& options() const { return options_; }

 private:
  CheckpointOptions options_;
  std::unique_ptr<FileSystem> files_;
  bool found_ = false;
  Manifest manifest_;
  std::string path_;
  std::vector<absl::Status> skipped_;
  std::unique_ptr<Cluster> cluster_;  // once started
};

}  // namespace coxswain
