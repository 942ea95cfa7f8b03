// Devices beside the CPU: their memory, their streams, and what they know of ops.
//
// A step has one stream on each device that it uses: whatever is enqueued on it runs in that order,
// so memory that a step has released may be used again by what it enqueues later, and nothing but a
// copy to the host is ever waited for. Several steps in flight use several streams.
//
// Errors of all functions, beside those named: ResourceExhausted when the device's memory does not
// suffice; one that IsDeviceLost knows when nothing works on the device any more in this process.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "coxswain/tensor.h"
#include "runtime/device/device_api.h"
#include "runtime/graph/graph.h"
#include "runtime/graph/kernel.h"

namespace coxswain::device {

class DeviceStream;

// Of a device that cannot be used again in this process. The process is to end: it is stateless, or
// its state is restored elsewhere.
absl::Status DeviceLost(const std::string& message);
bool IsDeviceLost(const absl::Status& status);

// Tensors in device memory; outputs with the dtypes and shapes that the op's inference gives.
struct DeviceOpRun {
  absl::Span<const Tensor> inputs;
  absl::Span<const Tensor> outputs;
  Buffer fault;   // one CoxFault
  int node = -1;  // its id, for the fault
  graph::StepInfo step;
};

// A device's code for one node. Immutable; one object serves all streams, on all threads.
class DeviceOp {
 public:
  virtual ~DeviceOp() = default;
  // Enqueues it. What is wrong with the inputs' values is written to the fault.
  virtual absl::Status Enqueue(DeviceStream* stream, const DeviceOpRun& run) const = 0;
};

// A queue of a device's work. Thread-safe. Ends when the last handle on it and on memory from it is
// gone; what is enqueued is run to its end.
class DeviceStream : public std::enable_shared_from_this<DeviceStream> {
 public:
  virtual ~DeviceStream() = default;
  // Uninitialised, for what is enqueued from now on. It goes back in the stream's order when the
  // last handle is gone.
  virtual absl::StatusOr<Buffer> Allocate(size_t bytes) = 0;
  // `host` is pinned memory (PinnedPool) and stays as it is until this is done;
  // the caller sees to that. Of the smaller size of both.
  virtual absl::Status CopyToDevice(const Buffer& to, const Buffer& host) = 0;
  virtual absl::Status CopyToHost(const Buffer& host, const Buffer& from) = 0;
  // `from` may be memory of another device that the same plugin gave (or another fake one).
  virtual absl::Status CopyOnDevice(const Buffer& to, const Buffer& from) = 0;
  virtual absl::Status FillZero(const Buffer& to) = 0;
  // What is enqueued here from now on runs after all that was enqueued on `other` until now: a
  // stream of this device, or of another one of the same plugin (or another fake one).
  virtual absl::Status WaitFor(DeviceStream* other) = 0;
  // Calls `reached` once when all that was enqueued before is done, on some thread; not at all when
  // this returns an error. It must do next to nothing, and nothing with devices.
  using Reached = absl::AnyInvocable<void(absl::Status)>;
  virtual absl::Status Notify(Reached reached) = 0;
  // A place in the stream: whether all that was enqueued before is done. For those who only ask now
  // and then, as the stream waits for whoever is notified. Thread-safe; it may outlive the stream.
  class Mark {
   public:
    virtual ~Mark() = default;
    virtual bool reached() const = 0;  // also if the device is lost
  };
  virtual absl::StatusOr<std::unique_ptr<Mark>> SetMark();
  // What was enqueued begins now, and not only when more comes.
  virtual absl::Status Flush() { return absl::OkStatus(); }
  // Waits until all that was enqueued before is done. Errors: as if the device were lost when that
  // takes longer than kLongestWait, for then it hangs.
  virtual absl::Status Synchronize();
};
// A device that takes longer for what is enqueued hangs.
constexpr absl::Duration kLongestWait = absl::Seconds(60);

// Host memory that a device copies from and to without a stop on the way. Blocks are kept for the
// next one who wants some. Thread-safe.
class PinnedPool : public std::enable_shared_from_this<PinnedPool> {
 public:
  using Allocator = std::function<absl::StatusOr<void*>(size_t)>;
  PinnedPool(Allocator allocate, std::function<void(void*)> free)
      : allocate_(std::move(allocate)), free_(std::move(free)) {}
  ~PinnedPool();
  // It may outlive the device.
  absl::StatusOr<Buffer> Allocate(size_t bytes);

 private:
  const Allocator allocate_;
  const std::function<void(void*)> free_;
  absl::Mutex mu_;
  std::vector<std::vector<void*>> blocks_ ABSL_GUARDED_BY(mu_);  // free ones, by class
};

// One device. Thread-safe. Must outlive its streams and its memory.
class DeviceRuntime {
 public:
  DeviceRuntime(Device device, std::shared_ptr<PinnedPool> pinned)
      : device_(device), pinned_(std::move(pinned)) {}
  virtual ~DeviceRuntime() = default;

  Device device() const { return device_; }
  virtual std::string name() const = 0;  // for people: "NVIDIA H100 80GB HBM3"
  virtual int64_t memory_bytes() const = 0;

  // Errors: NotFound when the device has no code for this op with these dtypes.
  virtual absl::StatusOr<std::unique_ptr<DeviceOp>> CreateOp(const graph::Node& node,
                                                             const graph::Graph& graph) = 0;
  // A copy of `host`, for as long as a handle is there and for all streams. Waits for the device.
  virtual absl::StatusOr<Buffer> Constant(const Buffer& host) = 0;
  // Zeroed memory for all streams, for as long as a handle is there: for what lives long. May wait
  // for the device.
  virtual absl::StatusOr<Buffer> Allocate(size_t bytes) = 0;
  virtual absl::StatusOr<std::shared_ptr<DeviceStream>> NewStream() = 0;
  // What a fault says, without the node's name. OK: none.
  virtual absl::Status FaultStatus(const CoxFault& fault) const;

  PinnedPool* pinned() const { return pinned_.get(); }

  // Streams for runs: each is lent to one run at a time.
  absl::StatusOr<std::shared_ptr<DeviceStream>> BorrowStream();
  void ReturnStream(std::shared_ptr<DeviceStream> stream);
  int borrowed_streams() const;

  // The streams on which this process's parameter servers read and update rows in the device's
  // memory. Whoever uses rows that came from there lets its stream wait for all of them. The
  // number-th, modulo kRowStreams; made when it is first wanted.
  static constexpr int kRowStreams = 4;
  absl::StatusOr<std::shared_ptr<DeviceStream>> RowStream(int number);
  // Those that were made.
  std::vector<std::shared_ptr<DeviceStream>> row_streams() const;

 protected:
  // Of derived classes, in their destructors, before what streams need goes. Whoever keeps what
  // TakeStreams gives keeps streams of a device that hangs: to end these could take for ever.
  void EndStreams() { TakeStreams(); }
  std::vector<std::shared_ptr<DeviceStream>> TakeStreams();
  const std::shared_ptr<PinnedPool>& shared_pinned() const { return pinned_; }

 private:
  const Device device_;
  const std::shared_ptr<PinnedPool> pinned_;
  mutable absl::Mutex mu_;
  std::vector<std::shared_ptr<DeviceStream>> idle_ ABSL_GUARDED_BY(mu_);
  std::array<std::shared_ptr<DeviceStream>, kRowStreams> row_streams_ ABSL_GUARDED_BY(mu_);
  int borrowed_ ABSL_GUARDED_BY(mu_) = 0;
};

// The devices of a task. Immutable.
class DeviceSet {
 public:
  DeviceSet() = default;
  explicit DeviceSet(std::vector<std::shared_ptr<DeviceRuntime>> devices, std::string why_none = "")
      : devices_(std::move(devices)), why_none_(std::move(why_none)) {}

  bool empty() const { return devices_.empty(); }
  int size() const { return static_cast<int>(devices_.size()); }
  const std::shared_ptr<DeviceRuntime>& device(int i) const {
    return devices_[static_cast<size_t>(i)];
  }
  // Why there are none, for people.
  const std::string& why_none() const { return why_none_; }

 private:
  std::vector<std::shared_ptr<DeviceRuntime>> devices_;
  std::string why_none_;
};

}  // namespace coxswain::device
