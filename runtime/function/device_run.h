// A run's part on a device: its stream, its copies, and what went wrong there.
//
// A run copies up at certain places only; there it learns of faults: before anything that was made
// with wrong values goes on to a PS.
#pragma once

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "runtime/device/device_runtime.h"
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

// Used by one thread at a time. Errors of all: those of the device.
class DeviceRun {
 public:
  // `function` and `device` must outlive it.
  static absl::StatusOr<std::unique_ptr<DeviceRun>> Start(device::DeviceRuntime* device,
                                                          const graph::Function* function);
  ~DeviceRun();

  // Enqueues one copy for all of them.
  absl::Status CopyToDevice(absl::Span<const Tensor> host, absl::Span<Tensor> outputs);
  // Allocates the outputs and enqueues the op.
  absl::Status RunOp(const device::DeviceOp& op, const graph::Node& node, OutputTypes* types,
                     absl::Span<const Tensor> inputs, absl::Span<Tensor> outputs,
                     const graph::StepInfo& step);
  // Enqueues one copy for all of them. `done` comes on a thread that must not be held up and where
  // devices may not be used: with the tensors in host memory, or with what was wrong in the run
  // before, naming the node. It does not come when this returns an error.
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<Tensor>>)>;
  absl::Status CopyToHost(absl::Span<const Tensor> tensors, Done done);

 private:
  DeviceRun(device::DeviceRuntime* device, const graph::Function* function,
            std::shared_ptr<device::DeviceStream> stream)
      : device_(device), function_(function), stream_(std::move(stream)) {}

  device::DeviceRuntime* const device_;
  const graph::Function* const function_;
  std::shared_ptr<device::DeviceStream> stream_;
  Buffer fault_;
  std::vector<Buffer> held_;  // what copies may still read
};

}  // namespace coxswain::function
