// A saved model or a checkpoint on a cluster, for tables that are larger than a process: its values
// are on parameter servers, which read them in pieces, and workers run its functions as closures.
// These change nothing, so that one whose worker is lost runs again. When a parameter server is
// lost, what runs fails: it has nothing to come back from.
//
// Thread model: made by one thread; Run, search and Cancel are thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/model/cluster_variables.h"
#include "coordinator/model/item_search.h"
#include "coordinator/model/model_parts.h"
#include "coordinator/model/saved_reader.h"
#include "coxswain/cluster.h"
#include "coxswain/cluster_coordinator.h"
#include "coxswain/strategy.h"
#include "runtime/data/dataset.h"
#include "runtime/graph/graph.h"

namespace coxswain::predict {

// The cluster on which a job's model is asked.
using OpenCluster = std::function<absl::StatusOr<Cluster>(const job::JobSpec&)>;

class RemoteModel {
 public:
  // `data` outlives it. Errors: those of the cluster; NotFound, InvalidArgument and DataLoss for
  // values that are not the job's or that cannot be read.
  static absl::StatusOr<std::unique_ptr<RemoteModel>> Create(Cluster cluster,
                                                             const job::JobSpec& job,
                                                             const data::Dataset& data,
                                                             const model::SavedSource& source);

  const model::ModelParts& parts() const { return parts_; }
  // What BuildLocalFunction has made of `build`, on the cluster: with the same arguments.
  absl::StatusOr<RemoteFunction> Define(const graph::Function& local,
                                        const std::function<void(FunctionBuilder&)>& build);
  // Errors: the closure's; Cancelled after Cancel.
  absl::StatusOr<std::vector<Tensor>> Run(const RemoteFunction& function,
                                          std::vector<Tensor> arguments);
  // Of a ProductModel: of users without their offset.
  absl::StatusOr<model::BestItems> Best(const Tensor& users, int64_t k);
  // Whatever runs, and all that is asked later, fails with Cancelled. From any thread.
  void Cancel();
  // How many closures keep all workers busy, of a few dozen workers at most.
  int closures() const;

 private:
  RemoteModel(Cluster cluster, job::JobSpec job, const data::Dataset& data);

  const Cluster cluster_;
  const job::JobSpec job_;
  ParameterServerStrategy strategy_;
  model::ClusterVariables variables_;
  model::ModelParts parts_;
  ClusterCoordinator coordinator_;
  std::optional<model::ItemSearch> search_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace coxswain::predict
