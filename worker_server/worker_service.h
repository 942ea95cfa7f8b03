// The worker daemon: stateless between sessions. It waits for a coordinator, receives plans and
// data sets, and runs closures.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cluster/daemon.h"
#include "runtime/cluster/pending_tasks.h"
#include "worker_server/execution.h"
#include "worker_server/index_parts.h"
#include "worker_server/worker_metrics.h"

namespace coxswain::worker {

class WorkerService final : public cluster::Daemon {
 public:
  // `registry` has all ops. All three arguments must outlive the service.
  WorkerService(env::Env* env, net::Transport* transport, const graph::OpRegistry* registry,
                cluster::DaemonOptions options);
  // Ends the session and waits for running kernels.
  ~WorkerService() override;

 protected:
  void OnSessionStart(Peer* coordinator) override;
  void OnSessionEnd() override;
  void OnControl(const proto::ControlRequest& request, net::Message message, Reply reply) override;
  void OnData(Peer* peer, net::Message message) override;
  void FillStatus(proto::TaskStatus* status) override;
  void SendMetrics(proto::TaskStatus status, const MetricsDone& done) override;

 private:
  struct LoadedDataset {
    std::string content;  // the spec, serialized
    uint64_t load = 0;    // counts loads: the result of a replaced load is dropped
    bool loading = true;
    absl::Status status;
    std::shared_ptr<const data::Dataset> data;
    std::vector<Reply> replies;                     // to requests that arrived before the data set
                                                    // was loaded
    std::vector<function::ClosureRequest> waiting;  // closures that arrived before
  };

  // worker_service.cc: set-up by a coordinator. All requests are idempotent.
  void DropOthers(const proto::SetupWorker& setup);
  void SetUp(const proto::SetupWorker& setup, Reply reply);
  absl::Status AddPlan(const proto::RegisterPlan& plan);
  absl::Status PlanReply(const absl::Status& status);
  absl::Status CompilePlan(graph::Function function, WorkerPlan* plan);
  void AddDataset(const proto::RegisterDataset& request, Reply reply);
  void OnDatasetLoaded(SessionId session, DatasetId id, uint64_t load,
                       absl::StatusOr<std::shared_ptr<const data::Dataset>> data);
  void ReleaseDataset(DatasetId id);
  static void ReplyDataset(const LoadedDataset& dataset, const Reply& reply);

  // worker_values.cc
  struct HeldValues {
    std::shared_ptr<const std::vector<Tensor>> results;  // null: not there (yet)
    uint64_t run = 0;                                    // that makes them
    bool running = true;
    absl::Status status;
    std::vector<Reply> replies;                     // to requests that came while it ran
    std::vector<function::ClosureRequest> waiting;  // closures that did
  };
  void AddValues(const proto::RegisterValues& request, const net::Message& message, Reply reply);
  void OnValues(SessionId session, ValuesId id, uint64_t run,
                absl::StatusOr<std::vector<Tensor>> results);
  void ReleaseValues(ValuesId id);
  // The values that the closure's plan names. False: they are not there, and the request waits for
  // them or was refused.
  bool TakeValues(function::ClosureRequest* request, ValuesOfPlan* values);

  // worker_closures.cc
  void RunClosure(function::ClosureRequest request);
  void Launch(function::ClosureRequest request, std::shared_ptr<const data::Dataset> data,
              ValuesOfPlan values);
  // Calls it with the closures that wait for a data set, and for values.
  void ForEachWaiting(const std::function<void(std::vector<function::ClosureRequest>*)>& visit);
  // Called on any thread. A result that is too large to be sent becomes an error.
  void SendDone(net::Connection* connection, const WorkerPlan& plan, function::ClosureReply reply);
  // Ends a closure that has not begun. The cause is kApplication unless the status has a cause.
  void Refuse(const function::ClosureRequest& request, absl::Status status);
  void CancelClosures(const proto::CancelClosures& cancel);
  // On any thread.
  void OnDeviceLost(const absl::Status& status);
  // Cancels all running attempts; each sends its own answer.
  void CancelRunning();

  const graph::OpRegistry* registry_;
  std::shared_ptr<net::Connection> coordinator_;
  // Ordered, so that messages sent while iterating have a defined order.
  std::map<PlanId, std::shared_ptr<const WorkerPlan>> plans_;
  std::map<DatasetId, LoadedDataset> datasets_;
  std::map<ValuesId, HeldValues> values_;
  Generation generation_ = 0;                         // of the last setup
  std::vector<std::shared_ptr<PsChannel>> channels_;  // by PS; null: not connected
  // By closure and number of the launch, because an older attempt may still run.
  std::map<std::pair<ClosureId, uint64_t>, std::weak_ptr<Execution>> running_;
  uint64_t last_load_ = 0;  // of a data set or of values
  uint64_t last_launch_ = 0;
  std::atomic<uint64_t> closures_run_{0};  // counted on any thread
  AttemptsEnded ended_;
  std::map<int, std::shared_ptr<PsTraffic>> traffic_;  // by PS; of all sessions
  std::atomic<bool> device_lost_{false};

  cluster::PendingTasks tasks_;  // work on the pool that refers to this object
  IndexParts index_parts_;
};

}  // namespace coxswain::worker
