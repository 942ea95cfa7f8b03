// The coordinator: holds the cluster, knows shards, plans and data sets, and runs closures.
//
// Everything is asynchronous: calls return at once and report through callbacks, on the
// controller's loop. The blocking interface for programs is coordinator/api. All calls are
// thread-safe: they post to the loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "coordinator/core/dispatcher.h"
#include "coordinator/core/task_session.h"
#include "protos/control.pb.h"
#include "runtime/function/frame.h"
#include "runtime/function/partition.h"

namespace coxswain {

struct ControllerOptions {
  std::vector<std::string> workers, ps;  // addresses
  std::string name;                      // "host:pid", for people
  int in_flight = 2;                     // closures per worker
  absl::Duration lease = absl::Seconds(2);
  // How long Start waits for the cluster, and how long for workers beyond the first.
  absl::Duration connect_timeout = absl::Seconds(10);
  absl::Duration straggler_timeout = absl::Seconds(5);
};

// A closure to run. Tensors are handles, so copies are cheap.
struct ClosureSpec {
  PlanId plan = 0;
  std::vector<Tensor> arguments;
  DatasetId dataset = 0;  // 0: no ticket
  Ticket ticket;
  uint32_t steps = 1;
  uint64_t seed = 0;
};

struct WorkerDataset {
  uint64_t fingerprint = 0;
  std::vector<int64_t> examples;  // by part
};

class Controller {
 public:
  using DoneFn = std::function<void(absl::Status)>;
  using ResultFn = std::function<void(absl::StatusOr<std::vector<Tensor>>)>;

  // `env` and `transport` must outlive the controller.
  Controller(Env* env, Transport* transport, ControllerOptions options);
  // Fails what is under way, says goodbye to the daemons.
  ~Controller();

  // Connects. OK once all PS and at least one worker are there (all workers, if they come in time).
  // Errors: Unavailable with cause kUnreachable, naming who is missing; or with what a task refused
  // (kClusterHeld).
  void Start(DoneFn done);

  // On the PS that each spec names. Errors: what a PS says.
  void CreateShards(std::vector<proto::ShardSpec> shards, DoneFn done);
  // `done` comes when all PS and the workers that are there have it.
  void RegisterPlan(PlanId plan, std::shared_ptr<const Partition> partition,
                    std::vector<proto::ArgumentSource> sources, DatasetId dataset, DoneFn done);
  // `done` comes when all workers that are there have loaded it.
  // Errors: what a worker says; DataLoss when two workers loaded different data.
  void RegisterDataset(DatasetId dataset, proto::DatasetSpec spec,
                       std::function<void(absl::StatusOr<WorkerDataset>)> done);
  // Queues a closure. `done` gets its results or its error; a lost worker is not an error.
  void Schedule(ClosureSpec closure, ResultFn done);
  // Closures that have not started are dropped with a Cancelled error.
  void CancelQueued();

  // Rows of a shard's weights (slot 0) or optimizer slots (1..).
  void ReadRows(int ps, ShardId shard, int64_t begin, int64_t count, int slot,
                std::function<void(absl::StatusOr<Tensor>)> done);
  void WriteRows(int ps, ShardId shard, int64_t begin, int slot, Tensor rows, DoneFn done);
  // The status of each task that answers.
  void QueryStatus(std::function<void(std::vector<proto::TaskStatus>)> done);
  void GetDispatcherStats(std::function<void(DispatcherStats, int workers)> done);

  int num_workers() const { return static_cast<int>(options_.workers.size()); }
  int num_ps() const { return static_cast<int>(options_.ps.size()); }
  Epoch epoch() const { return epoch_; }
  int in_flight() const { return options_.in_flight; }
  Env* env() { return env_; }

 private:
  struct PendingClosure {
    ClosureSpec spec;
    ResultFn done;
    int unreachable_ps = 0;  // attempts that failed because a worker could not reach a PS
  };
  struct Plan {
    proto::RegisterPlan for_worker;
  };

  void Connect();
  std::shared_ptr<TaskSession> NewSession(const std::string& job, int task,
                                          const std::string& address);
  void OnPsUp(int ps);
  void OnPsDown(int ps, const absl::Status& status);
  void OnWorkerUp(int worker);
  void OnWorkerDown(int worker, const absl::Status& status);
  void OnWorkerReady(int worker);
  void OnRefused(const std::string& task, absl::Status status);
  void OnWorkerData(int worker, Message message);
  void OnClosureFailed(ClosureReply reply);
  void SetUpWorker(int worker);
  void PostAfter(absl::Duration delay, std::function<void()> task);
  void CheckStarted(bool timed_out);
  void FinishStart(absl::Status status);
  absl::Status Unreachable() const;
  bool AllPsUp() const;
  void Dispatch();
  void Resolve(ClosureId closure, absl::StatusOr<std::vector<Tensor>> results);
  void FailAll(const absl::Status& status);

  Env* env_;
  Transport* transport_;
  const ControllerOptions options_;
  const Epoch epoch_;
  std::shared_ptr<EventLoop> loop_;
  // Everything below belongs to the loop.
  std::vector<std::shared_ptr<TaskSession>> ps_, workers_;
  std::vector<bool> worker_ready_;
  absl::flat_hash_map<std::string, absl::Status> refusals_;  // by task, the last one
  DoneFn start_done_;
  absl::Duration start_time_;
  bool started_ = false;
  bool ending_ = false;  // tasks that go away are no news
  absl::Status failed_;  // the job cannot go on: a PS is lost
  Dispatcher dispatcher_;
  // Gone once the controller is: timers that fire later do nothing.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  absl::flat_hash_map<ClosureId, PendingClosure> closures_;
  std::vector<std::pair<PlanId, Plan>> plans_;  // in order of registration
  std::vector<std::pair<DatasetId, proto::DatasetSpec>> datasets_;
};

}  // namespace coxswain
