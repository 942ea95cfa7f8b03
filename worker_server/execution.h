// One attempt of one closure on a worker: reads the ticket's examples and runs the plan's
// component, once for every step of the closure.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "protos/control.pb.h"
#include "runtime/data/dataset.h"
#include "runtime/function/executor.h"
#include "runtime/function/frame.h"
#include "worker_server/ps_channel.h"

namespace coxswain {

// A plan as a worker keeps it. Immutable.
struct WorkerPlan {
  PlanId id = 0;
  DatasetId dataset = 0;
  std::shared_ptr<const CompiledFunction> component;
  std::vector<proto::ArgumentSource> sources;  // one per argument
};

class Execution final : public PsCaller, public std::enable_shared_from_this<Execution> {
 public:
  using Done = absl::AnyInvocable<void(ClosureReply)>;

  // `data` may be null when the request has no ticket. `done` is called once, on any thread.
  Execution(ClosureRequest request, std::shared_ptr<const WorkerPlan> plan,
            std::shared_ptr<const Dataset> data, std::vector<std::shared_ptr<PsChannel>> channels,
            std::string task, ComputePool* pool, Done done);

  // Starts on the pool, or in the calling thread when there is next to nothing to do.
  void Start();
  // No further step starts. Thread-safe.
  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }

  void Call(const PsCallTarget& target, std::vector<Tensor> inputs, PsCaller::Done done) override;

 private:
  void RunStep();
  absl::StatusOr<std::vector<Tensor>> Arguments() const;
  void OnStepDone(absl::StatusOr<std::vector<Tensor>> results);
  void Finish(absl::Status status, std::vector<Tensor> results);

  ClosureRequest request_;
  const std::shared_ptr<const WorkerPlan> plan_;
  const std::shared_ptr<const Dataset> data_;
  const std::vector<std::shared_ptr<PsChannel>> channels_;
  const std::string task_;
  ComputePool* const pool_;
  Done done_;
  std::atomic<bool> cancelled_{false};
  uint32_t step_ = 0;
};

}  // namespace coxswain
