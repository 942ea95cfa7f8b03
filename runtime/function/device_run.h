// A run's part on devices: a stream on each, its copies, and what went wrong there.
//
// A run copies up at certain places only; there it learns of faults: before anything that was made
// with wrong values goes on to a PS. What goes from one device to another brings the faults with it
// that were found until then.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "runtime/device/device_runtime.h"
#include "runtime/function/lane_trace.h"
#include "runtime/graph/graph.h"
#include "runtime/graph/kernel.h"

namespace coxswain::function {

// The types of a node's outputs, kept for the types of inputs that it had last: shapes seldom
// change from step to step. Thread-safe.
class OutputTypes {
 public:
  using Types = std::shared_ptr<const std::vector<TensorType>>;

  // Fully known. Errors: of the op's inference; Internal when a shape does not follow.
  absl::StatusOr<Types> For(const graph::Node& node, const graph::OpRegistry& registry,
                            absl::Span<const Tensor> inputs);
  // How often they were inferred.
  int64_t inferred() const;

 private:
  mutable absl::Mutex mu_;
  std::vector<TensorType> inputs_ ABSL_GUARDED_BY(mu_);
  Types outputs_ ABSL_GUARDED_BY(mu_);
  int64_t inferred_ ABSL_GUARDED_BY(mu_) = 0;
};

// Used by one thread at a time. Devices are numbered as the run's. Errors of all: those of the
// devices.
class DeviceRun {
 public:
  // `devices` (at least one), `function` and `trace` (null: none) must outlive it. The trace tells
  // what was copied and computed when, and that it was for `step`, if it is on now.
  static absl::StatusOr<std::unique_ptr<DeviceRun>> Start(
      absl::Span<const std::shared_ptr<device::DeviceRuntime>> devices,
      const graph::Function* function, trace::TraceRecorder* trace = nullptr,
      const graph::StepInfo& step = {});
  ~DeviceRun();

  // Enqueues one copy for all of them. Threads of the pool help to bring much of it together. Rows
  // that a PS of this process has left in the device's memory stay where they are.
  absl::Status CopyToDevice(int device, absl::Span<const Tensor> host, env::ComputePool* pool,
                            absl::Span<Tensor> outputs);
  // Allocates the outputs and enqueues the op. What an op passes on stays in its input's memory.
  absl::Status RunOp(int device, const device::DeviceOp& op, const graph::Node& node,
                     OutputTypes* types, absl::Span<const Tensor> inputs,
                     absl::Span<Tensor> outputs, const graph::StepInfo& step);
  // Enqueues copies of tensors of `from` for what is enqueued on `to` from now on. The originals
  // stay until the run ends.
  absl::Status CopyBetweenDevices(int from, int to, absl::Span<const Tensor> inputs,
                                  absl::Span<Tensor> outputs);
  // Enqueues one copy for all of them. `done` comes on a thread that must not be held up and where
  // devices may not be used: with the tensors in host memory, or with what was wrong in the run
  // before, naming the node. It does not come when this returns an error.
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<Tensor>>)>;
  absl::Status CopyToHost(int device, absl::Span<const Tensor> tensors, Done done);
  // Nothing more is enqueued until something else has come: for the trace.
  void OnIdle();

 private:
  // A lane's fault as it was once. A fault that was found stays, so that a newer one says all that
  // an older one did.
  struct FaultCopy {
    int number = 0;  // of the lane's copies: which of two is newer
    Buffer fault;
  };

  // What the run has of one device.
  struct Lane {
    device::DeviceRuntime* device = nullptr;
    std::shared_ptr<device::DeviceStream> stream;
    Buffer fault;
    int copies_of_fault = 0;                    // that were made for other lanes
    std::map<int, FaultCopy> faults_of_others;  // by lane, the newest that came
    std::vector<Buffer> held;                   // what copies from the host may still read
    std::vector<Buffer> lent;                   // what copies to other lanes may still read
    std::set<int> borrowers;                    // these lanes
    std::vector<Buffer> rows;                   // of row streams, that this one may still read
    bool goes_on = false;                       // was asked for more since what came up last
    std::unique_ptr<LaneTrace> trace;           // null: there is none
  };

  explicit DeviceRun(const graph::Function* function) : function_(function) {}
  // Those of the tensors that are in the device's memory, for what is enqueued from now on.
  static absl::Status TakeRows(Lane* lane, absl::Span<const Tensor> tensors,
                               absl::Span<Tensor> outputs);
  // What a fault that came up says. OK: none.
  static absl::Status FaultStatus(const device::DeviceRuntime& device,
                                  const graph::Function& function, const Buffer& fault);

  const graph::Function* const function_;
  std::vector<Lane> lanes_;
};

}  // namespace coxswain::function
