// Runs functions and components: a ready queue over precompiled nodes.
//
// One run is worked on by one thread at a time; parallelism comes from several runs in flight and
// from ParallelFor inside kernels. Nodes that something must wait for on a PS run first. An input
// that is used for the last time is handed to its kernel as the only owner, so that results reuse
// its memory.
//
// With devices (runtime/device), nodes placed there are enqueued on streams of the run's own, one a
// device, and are then over as far as the host is concerned; only a copy to the host is waited for,
// as for a PS: its values come by the same mailbox as replies.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "runtime/function/partition.h"
#include "runtime/graph/graph.h"
#include "runtime/graph/kernel.h"
#include "runtime/trace/recorder.h"

namespace coxswain::device {
class DeviceRuntime;
}  // namespace coxswain::device

namespace coxswain::function {

// Carries a PsCall to its PS. `done` may be called on any thread, also before Call returns, exactly
// once.
class PsCaller {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<Tensor>>)>;
  virtual ~PsCaller() = default;
  virtual void Call(const PsCallTarget& target, std::vector<Tensor> inputs, Done done) = 0;
};

struct RunOptions {
  graph::StepInfo step;
  env::ComputePool* pool = nullptr;
  graph::VariableAccess* variables = nullptr;
  trace::TraceRecorder* trace = nullptr;  // RunAsync: must live until `done` was called
  // RunAsync, of the same life: once it is true no further node starts, and the run ends with
  // Cancelled. Null: it goes on to its end.
  const std::atomic<bool>* cancelled = nullptr;
  // RunAsync with devices: PS are in this process, and rows that they keep in the memory of a GPU,
  // and gradients of these, do not pass the host where both sides are on one GPU.
  bool exchanges_on_gpu = false;
};

struct CompiledNode;
class AsyncRun;

// Immutable; shared by all runs, on all threads.
class CompiledFunction {
 public:
  // Those of a step, in its order: the first is its GPU:0.
  using Devices = std::vector<std::shared_ptr<device::DeviceRuntime>>;

  // Creates the kernels. With `devices`: those of the nodes that PlaceOnDevices puts there.
  // Errors: NotFound for an op without a kernel; InvalidArgument for its attributes; those of
  // PlaceOnDevices; FailedPrecondition for a node that wants a device where there is none.
  static absl::StatusOr<std::shared_ptr<const CompiledFunction>> Compile(graph::Function function,
                                                                         Devices devices = {});
  ~CompiledFunction();

  const graph::Function& function() const { return function_; }
  bool has_ps_calls() const { return has_ps_calls_; }
  // Those of the devices that it was given which its nodes use. None: all of it is on the CPU.
  const Devices& devices() const { return devices_; }
  int kernel_count() const { return kernel_count_; }

  // Checks number, dtypes and shapes of arguments. Errors: InvalidArgument naming the argument.
  absl::Status CheckArguments(const std::vector<Tensor>& arguments) const;

  // Runs in the calling thread; the function has no PsCall and no device. Returns the results in
  // order.
  // Errors: what a kernel says, with the node's name.
  absl::StatusOr<std::vector<Tensor>> Run(std::vector<Tensor> arguments,
                                          const RunOptions& options) const;

  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<Tensor>>)>;
  // Starts in the calling thread; what follows a PsCall's reply runs on the pool. Kernels that do
  // not wait for each other run at the same time where they have much to do and threads of the pool
  // have nothing. `caller` must live until `done` was called. After an error no further node
  // starts; `done` waits for calls under way.
  // With devices the same is so for copies to the host, and the pool is needed.
  static void RunAsync(std::shared_ptr<const CompiledFunction> function,
                       std::vector<Tensor> arguments, const RunOptions& options, PsCaller* caller,
                       Done done);

 private:
  friend class ActiveRun;
  friend class AsyncRun;
  CompiledFunction(graph::Function function, Devices devices);
  // `numbers`: by a device's number among those of a step, that among devices_.
  absl::Status CompileNode(const graph::Node& node, const std::vector<int>& numbers,
                           CompiledNode* compiled);
  void AssignPriorities();
  std::vector<std::vector<std::pair<int, int64_t>>> FindTakers() const;
  // What need not pass the host, see RunOptions::exchanges_on_gpu.
  void FindExchanges();

  graph::Function function_;
  const Devices devices_;  // goes after the nodes
  std::vector<CompiledNode> nodes_;
  std::vector<int> slot_uses_;
  std::vector<int> argument_slots_;
  int kernel_count_ = 0;
  int enqueued_count_ = 0;  // nodes that enqueue work on devices
  bool has_ps_calls_ = false;
};

}  // namespace coxswain::function
