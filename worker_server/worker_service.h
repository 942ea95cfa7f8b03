// The worker daemon: stateless between sessions, it waits for a coordinator, learns plans and data
// sets, and runs closures.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "runtime/cluster/daemon.h"
#include "worker_server/execution.h"

namespace coxswain {

class WorkerService final : public Daemon {
 public:
  // `registry` has all ops. All three must outlive the service.
  WorkerService(Env* env, Transport* transport, const OpRegistry* registry, DaemonOptions options);
  // Ends the session and waits for the kernels that run.
  ~WorkerService() override;

 protected:
  void OnSessionStart(Peer* coordinator) override;
  void OnSessionEnd() override;
  void OnControl(const proto::ControlRequest& request, Message message, Reply reply) override;
  void OnData(Peer* peer, Message message) override;
  void FillStatus(proto::TaskStatus* status) override;

 private:
  struct LoadedDataset {
    bool loading = true;
    absl::Status status;
    std::shared_ptr<const Dataset> data;
    std::vector<ClosureRequest> waiting;  // closures that came before it was loaded
  };

  void SetUp(const proto::SetupWorker& setup, Reply reply);
  absl::Status AddPlan(const proto::RegisterPlan& plan);
  void AddDataset(const proto::RegisterDataset& request, Reply reply);
  void OnDatasetLoaded(Epoch epoch, DatasetId id,
                       absl::StatusOr<std::shared_ptr<const Dataset>> data, const Reply& reply);
  void RunClosure(ClosureRequest request);
  void Launch(ClosureRequest request, std::shared_ptr<const Dataset> data);
  void Refuse(const ClosureRequest& request, absl::Status status);
  void CancelClosures(const proto::CancelClosures& cancel);

  const OpRegistry* registry_;
  std::shared_ptr<Connection> coordinator_;
  absl::flat_hash_map<PlanId, std::shared_ptr<const WorkerPlan>> plans_;
  absl::flat_hash_map<DatasetId, LoadedDataset> datasets_;
  std::vector<std::shared_ptr<PsChannel>> channels_;
  absl::flat_hash_map<ClosureId, std::weak_ptr<Execution>> running_;
  uint64_t closures_run_ = 0;

  // Work on the pool that refers to this object.
  absl::Mutex mu_;
  int tasks_out_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace coxswain
