// Streams, which keep the order of what is enqueued; ops, which are CPU kernels on the memory
// inside; and the device that both belong to.
#include "runtime/device/fake_device.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "runtime/base/stable_hash.h"
#include "runtime/base/status.h"
#include "runtime/device/fake_memory.h"
#include "runtime/tensor/limits.h"

namespace coxswain::device {
namespace {

using Task = absl::AnyInvocable<void()>;

uint64_t Draw(uint64_t* state) {
  *state += kSplitMixStep;
  return SplitMixFinish(*state);
}

class TheFakeDevice;
class FakeStream;

// What a stream waits for: that another one has got somewhere.
class Gate {
 public:
  Gate(FakeStream* waiting, std::weak_ptr<DeviceStream> other)
      : other_(std::move(other)), waiting_(waiting) {}

  bool IsOpen() const { return open_.HasBeenNotified(); }
  void AwaitOpen() const { open_.WaitForNotification(); }
  // By the other stream. Whoever waits has Left when it ends, so it is there.
  void Open();
  // The stream has passed, and may end.
  void Leave() {
    absl::MutexLock lock(&mu_);
    waiting_ = nullptr;
  }
  // Null: it has run to its end.
  std::shared_ptr<DeviceStream> other() const { return other_.lock(); }

 private:
  absl::Notification open_;
  const std::weak_ptr<DeviceStream> other_;
  absl::Mutex mu_;
  FakeStream* waiting_ ABSL_GUARDED_BY(mu_);
};

class FakeStream final : public DeviceStream {
 public:
  FakeStream(TheFakeDevice* device, uint64_t seed) : device_(device), random_(seed) {}
  ~FakeStream() override;

  absl::StatusOr<Buffer> Allocate(size_t bytes) override;
  absl::Status CopyToDevice(const Buffer& to, const Buffer& host) override;
  absl::Status CopyToHost(const Buffer& host, const Buffer& from) override;
  absl::Status CopyOnDevice(const Buffer& to, const Buffer& from) override;
  absl::Status FillZero(const Buffer& to) override;
  absl::Status WaitFor(DeviceStream* other) override;
  absl::Status Notify(Reached reached) override;
  absl::Status Synchronize() override;

  // Errors: that the device is lost.
  absl::Status Enqueue(Task task);
  // Runs something of what is queued, in this thread, or of what that waits for. False: there was
  // nothing, or another thread is at it.
  bool Drain();
  // A gate is open.
  void GoOn();

 private:
  struct Step {
    Task task;
    std::shared_ptr<Gate> gate;  // instead of a task
  };

  void Push(Step step);
  // The gate at which it stands. Null: none.
  std::shared_ptr<Gate> ClosedGate() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes the first step, which is not behind a closed gate.
  Step TakeStep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Runs it and ends it.
  void RunStep(Step step);
  // Before the stream goes on.
  absl::Duration Delay() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WakeUp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Runs a few tasks.
  void Run();

  TheFakeDevice* const device_;
  mutable absl::Mutex mu_;
  uint64_t random_ ABSL_GUARDED_BY(mu_);
  std::deque<Step> steps_ ABSL_GUARDED_BY(mu_);
  bool awake_ ABSL_GUARDED_BY(mu_) = false;    // a Run will come
  bool running_ ABSL_GUARDED_BY(mu_) = false;  // a task runs
};

// Errors of kernels, which a CoxFault cannot hold. Thread-safe.
class FaultTable {
 public:
  int64_t Add(absl::Status status) {
    absl::MutexLock lock(&mu_);
    statuses_.push_back(std::move(status));
    return static_cast<int64_t>(statuses_.size()) - 1;
  }
  absl::Status Get(int64_t at) const {
    absl::MutexLock lock(&mu_);
    if (at >= 0 && at < static_cast<int64_t>(statuses_.size())) {
      return statuses_[static_cast<size_t>(at)];
    }
    return absl::InternalError("a fault that the fake device does not know");
  }

 private:
  mutable absl::Mutex mu_;
  std::vector<absl::Status> statuses_ ABSL_GUARDED_BY(mu_);
};

class TheFakeDevice final : public FakeDevice {
 public:
  TheFakeDevice(env::Env* env, const FakeDeviceOptions& options, std::unique_ptr<FakeMemory> memory)
      : FakeDevice(Device{DeviceType::kGpu, static_cast<int16_t>(options.index)}, HostMemory()),
        options_(options),
        memory_(std::move(memory)),
        own_loop_(env->NewComputeLoop()),
        loop_(own_loop_.get()) {}
  ~TheFakeDevice() override {
    EndStreams();
    own_loop_.reset();  // waits for the task that runs, which may still use loop_
    Drain();
  }

  std::string name() const override { return "fake GPU"; }
  int64_t memory_bytes() const override { return static_cast<int64_t>(options_.memory_bytes); }
  absl::StatusOr<std::unique_ptr<DeviceOp>> CreateOp(const graph::Node& node,
                                                     const graph::Graph& graph) override;
  absl::StatusOr<Buffer> Constant(const Buffer& host) override;
  absl::StatusOr<Buffer> Allocate(size_t bytes) override;
  absl::StatusOr<std::shared_ptr<DeviceStream>> NewStream() override;
  absl::Status FaultStatus(const CoxFault& fault) const override {
    return fault.kind == COX_FAULT_OTHER ? faults.Get(fault.value)
                                         : DeviceRuntime::FaultStatus(fault);
  }
  bool Drain() override;
  FakeDeviceStats stats() const override {
    return {to_device.load(),  to_host.load(),     from_devices.load(),
            ops.load(),        allocations.load(), static_cast<int64_t>(memory_->live_bytes()),
            bytes_down.load(), bytes_up.load(),    notifications.load()};
  }
  void Break() override { broken_.store(true); }

  absl::Status Check() const {
    if (!broken_.load()) return absl::OkStatus();
    return DeviceLost(absl::StrCat("GPU:", device().index, " (", name(), ") was broken"));
  }
  void CountOp() {
    if (++ops == options_.break_after_ops) Break();
  }
  absl::StatusOr<Buffer> AllocateBlock(size_t bytes, std::function<void(void*)> give_back);
  FakeMemory* memory() { return memory_.get(); }
  bool notifies_early() const { return options_.notifies_early; }
  bool forgets_waits() const { return options_.forgets_waits; }
  absl::Duration max_delay() const { return options_.max_delay; }
  env::EventLoop* loop() { return loop_; }
  void Forget(FakeStream* stream);

  std::atomic<int64_t> to_device{0}, to_host{0}, from_devices{0}, ops{0}, allocations{0};
  std::atomic<int64_t> bytes_down{0}, bytes_up{0};  // to the device, to the host
  std::atomic<int64_t> notifications{0};
  FaultTable faults;

 private:
  static std::shared_ptr<PinnedPool> HostMemory() {
    return std::make_shared<PinnedPool>(
        [](size_t bytes) -> absl::StatusOr<void*> {
          void* const block = std::aligned_alloc(4096, bytes);
          if (block == nullptr) return absl::ResourceExhaustedError("no host memory");
          return block;
        },
        [](void* block) { std::free(block); });
  }

  const FakeDeviceOptions options_;
  const std::unique_ptr<FakeMemory> memory_;
  std::unique_ptr<env::EventLoop> own_loop_;
  env::EventLoop* const loop_;
  std::atomic<bool> broken_{false};
  absl::Mutex mu_;
  uint64_t streams_made_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<FakeStream*> streams_ ABSL_GUARDED_BY(mu_);
};

// --- streams

FakeStream::~FakeStream() {
  while (true) {
    while (Drain()) {
    }
    mu_.Lock();
    const std::shared_ptr<Gate> gate = ClosedGate();
    mu_.Unlock();
    if (gate == nullptr) break;
    gate->AwaitOpen();  // another thread runs the stream that opens it
  }
  device_->Forget(this);
}

absl::Status FakeStream::Enqueue(Task task) {
  RETURN_IF_ERROR(device_->Check());
  Push(Step{std::move(task), nullptr});
  return absl::OkStatus();
}

void FakeStream::Push(Step step) {
  absl::MutexLock lock(&mu_);
  steps_.push_back(std::move(step));
  if (!std::exchange(awake_, true)) WakeUp();
}

std::shared_ptr<Gate> FakeStream::ClosedGate() const {
  if (steps_.empty() || steps_.front().gate == nullptr) return nullptr;
  const std::shared_ptr<Gate>& gate = steps_.front().gate;
  return gate->IsOpen() ? nullptr : gate;
}

FakeStream::Step FakeStream::TakeStep() {
  Step step = std::move(steps_.front());
  steps_.pop_front();
  running_ = true;
  return step;
}

void FakeStream::RunStep(Step step) {
  if (step.gate != nullptr) {
    step.gate->Leave();
  } else {
    step.task();
  }
  step = {};
  absl::MutexLock lock(&mu_);
  running_ = false;
}

void Gate::Open() {
  absl::MutexLock lock(&mu_);
  open_.Notify();
  if (waiting_ != nullptr) waiting_->GoOn();
}

void FakeStream::GoOn() {
  absl::MutexLock lock(&mu_);
  if (!steps_.empty() && !std::exchange(awake_, true)) WakeUp();
}

absl::Duration FakeStream::Delay() {
  const uint64_t draw = Draw(&random_);
  // Half of the time none, so that fast and slow streams are both seen.
  if (draw % 2 == 0) return absl::ZeroDuration();
  return device_->max_delay() * (static_cast<double>(draw >> 11) * 0x1p-53);
}

void FakeStream::WakeUp() {
  device_->loop()->PostAfter(Delay(), [weak = weak_from_this()] {
    if (const auto self = std::static_pointer_cast<FakeStream>(weak.lock())) self->Run();
  });
}

void FakeStream::Run() {
  int turn;
  {
    absl::MutexLock lock(&mu_);
    turn = 1 + static_cast<int>(Draw(&random_) % 16);
  }
  while (turn-- > 0) {
    Step step;
    {
      absl::MutexLock lock(&mu_);
      if (running_) break;  // Drain is at it
      if (steps_.empty() || ClosedGate() != nullptr) {
        awake_ = false;
        return;
      }
      step = TakeStep();
    }
    RunStep(std::move(step));
  }
  absl::MutexLock lock(&mu_);
  WakeUp();
}

bool FakeStream::Drain() {
  Step step;
  std::shared_ptr<Gate> gate;
  {
    absl::MutexLock lock(&mu_);
    if (steps_.empty() || running_) return false;
    gate = ClosedGate();
    if (gate == nullptr) step = TakeStep();
  }
  if (gate != nullptr) {
    const std::shared_ptr<DeviceStream> other = gate->other();
    return other != nullptr && static_cast<FakeStream*>(other.get())->Drain();
  }
  RunStep(std::move(step));
  return true;
}

absl::StatusOr<Buffer> FakeStream::Allocate(size_t bytes) {
  RETURN_IF_ERROR(device_->Check());
  ++device_->allocations;
  ASSIGN_OR_RETURN(Buffer buffer, device_->AllocateBlock(bytes, [self = shared_from_this(),
                                                                 device = device_,
                                                                 bytes](void* block) {
    FakeStream* const stream = static_cast<FakeStream*>(self.get());
    // Also on a device that is lost: what was enqueued before still runs.
    stream->Push(Step{[device, block, bytes] { device->memory()->Free(block, bytes); }, nullptr});
  }));
  RETURN_IF_ERROR(Enqueue(
      [device = device_, at = buffer.data(), bytes] { device->memory()->Spoil(at, bytes); }));
  return buffer;
}

absl::Status FakeStream::CopyToDevice(const Buffer& to, const Buffer& host) {
  ++device_->to_device;
  device_->bytes_down += static_cast<int64_t>(std::min(to.size(), host.size()));
  return Enqueue([device = device_, to = to.data(), from = host.data(),
                  bytes = std::min(to.size(), host.size())] {
    std::memcpy(device->memory()->Inside(to), from, bytes);
  });
}

absl::Status FakeStream::CopyToHost(const Buffer& host, const Buffer& from) {
  ++device_->to_host;
  device_->bytes_up += static_cast<int64_t>(std::min(from.size(), host.size()));
  std::memset(host.data(), 0xff, std::min(from.size(), host.size()));
  return Enqueue([device = device_, to = host.data(), from = from.data(),
                  bytes = std::min(from.size(), host.size())] {
    std::memcpy(to, device->memory()->Inside(from), bytes);
  });
}

absl::Status FakeStream::CopyOnDevice(const Buffer& to, const Buffer& from) {
  if (from.device() != to.device()) ++device_->from_devices;
  return Enqueue([to = device_->memory()->Inside(to.data()),
                  from = FakeMemory::InsideOfAny(from.data()),
                  bytes = std::min(to.size(), from.size())] { std::memcpy(to, from, bytes); });
}

absl::Status FakeStream::FillZero(const Buffer& to) {
  return Enqueue([device = device_, to = to.data(), bytes = to.size()] {
    std::memset(device->memory()->Inside(to), 0, bytes);
  });
}

absl::Status FakeStream::WaitFor(DeviceStream* other) {
  if (device_->forgets_waits()) return absl::OkStatus();
  auto* const from = static_cast<FakeStream*>(other);
  const auto gate = std::make_shared<Gate>(this, other->weak_from_this());
  // Also when a device is lost: what was enqueued before still runs, and must find its memory.
  from->Push(Step{[gate] { gate->Open(); }, nullptr});
  Push(Step{nullptr, gate});
  RETURN_IF_ERROR(from->device_->Check());
  return device_->Check();
}

absl::Status FakeStream::Notify(Reached reached) {
  ++device_->notifications;
  if (device_->notifies_early()) {
    RETURN_IF_ERROR(device_->Check());
    reached(absl::OkStatus());
    return absl::OkStatus();
  }
  return Enqueue(
      [device = device_, reached = std::move(reached)]() mutable { reached(device->Check()); });
}

// In this thread: in a simulated world no other one would do it.
absl::Status FakeStream::Synchronize() {
  const auto done = std::make_shared<absl::Notification>();
  RETURN_IF_ERROR(Enqueue([done] { done->Notify(); }));
  absl::Duration waited;
  while (!done->HasBeenNotified()) {
    if (Drain()) continue;
    // Another thread runs a step of it, or of what it waits for.
    constexpr absl::Duration kTurn = absl::Milliseconds(1);
    done->WaitForNotificationWithTimeout(kTurn);
    waited += kTurn;
    if (waited > kLongestWait) return DeviceLost(absl::StrCat(device_->name(), " hangs"));
  }
  return device_->Check();
}

// --- ops

// A CPU kernel on the device's memory.
class FakeOp final : public DeviceOp {
 public:
  FakeOp(TheFakeDevice* device, std::shared_ptr<const graph::Kernel> kernel)
      : device_(device), kernel_(std::move(kernel)) {}

  absl::Status Enqueue(DeviceStream* stream, const DeviceOpRun& run) const override {
    device_->CountOp();
    std::vector<Tensor> inputs, outputs;
    for (const Tensor& t : run.inputs) inputs.push_back(Inside(t));
    for (const Tensor& t : run.outputs) outputs.push_back(Inside(t));
    auto* const fault = static_cast<CoxFault*>(device_->memory()->Inside(run.fault.data()));
    return static_cast<FakeStream*>(stream)->Enqueue(
        [device = device_, kernel = kernel_, inputs = std::move(inputs),
         outputs = std::move(outputs), fault, node = run.node, step = run.step]() mutable {
          absl::Status status = Compute(*kernel, absl::MakeSpan(inputs), step, outputs);
          if (status.ok() || fault->kind != COX_FAULT_NONE) return;
          fault->kind = COX_FAULT_OTHER;
          fault->node = node;
          fault->value = device->faults.Add(std::move(status));
        });
  }

 private:
  // The same bytes where they can be read. Not the only handle, so that kernels write elsewhere.
  Tensor Inside(const Tensor& outside) const {
    const Buffer bytes = Buffer::Wrap(device_->memory()->Inside(outside.buffer().data()),
                                      outside.bytes(), Device{}, [] {});
    return Tensor(outside.dtype(), outside.shape(), bytes);
  }

  static absl::Status Compute(const graph::Kernel& kernel, absl::Span<Tensor> inputs,
                              const graph::StepInfo& step, const std::vector<Tensor>& wanted) {
    // What is to be written over has no second handle: it may be a whole table.
    std::vector<Tensor> shared;
    for (const Tensor& input : inputs) {
      const bool in_place = std::any_of(wanted.begin(), wanted.end(), [&](const Tensor& output) {
        return output.raw() == input.raw();
      });
      if (!in_place) shared.push_back(input);
    }
    std::vector<Tensor> made(wanted.size());
    const std::unique_ptr<env::ComputePool> pool = env::NewInlinePool();
    graph::KernelContext context(inputs, absl::MakeSpan(made), step, pool.get(), nullptr);
    RETURN_IF_ERROR(CatchAllocationErrors([&] { return kernel.Compute(&context); }));
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (made[i].dtype() != wanted[i].dtype() || made[i].shape() != wanted[i].shape()) {
        return absl::InternalError(absl::StrCat("output ", i, ": inference promised ",
                                                wanted[i].shape().ToString(), ", the kernel made ",
                                                made[i].shape().ToString()));
      }
      if (made[i].bytes() == 0 || made[i].raw() == wanted[i].raw()) continue;
      std::memcpy(const_cast<void*>(wanted[i].raw()), made[i].raw(), made[i].bytes());
    }
    return absl::OkStatus();
  }

  TheFakeDevice* const device_;
  const std::shared_ptr<const graph::Kernel> kernel_;
};

// --- the device

absl::StatusOr<Buffer> TheFakeDevice::AllocateBlock(size_t bytes,
                                                    std::function<void(void*)> give_back) {
  void* const block = memory_->Allocate(bytes);
  if (block == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("GPU:", device().index, " (", name(), "): no memory for ", bytes, " bytes; ",
                     memory_->live_bytes(), " of ", options_.memory_bytes, " are in use"));
  }
  return Buffer::Wrap(block, bytes, device(),
                      [block, give_back = std::move(give_back)] { give_back(block); });
}

absl::StatusOr<std::unique_ptr<DeviceOp>> TheFakeDevice::CreateOp(const graph::Node& node,
                                                                  const graph::Graph& graph) {
  ASSIGN_OR_RETURN(std::unique_ptr<graph::Kernel> kernel, graph.registry()->CreateKernel(node));
  return std::unique_ptr<DeviceOp>(new FakeOp(this, std::move(kernel)));
}

absl::StatusOr<Buffer> TheFakeDevice::Allocate(size_t bytes) {
  RETURN_IF_ERROR(Check());
  ASSIGN_OR_RETURN(Buffer buffer, AllocateBlock(bytes, [this, bytes](void* block) {
                     memory_->Free(block, bytes);
                   }));
  if (bytes > 0) std::memset(memory_->Inside(buffer.data()), 0, bytes);
  return buffer;
}

absl::StatusOr<Buffer> TheFakeDevice::Constant(const Buffer& host) {
  ASSIGN_OR_RETURN(Buffer buffer, Allocate(host.size()));
  if (host.size() > 0) std::memcpy(memory_->Inside(buffer.data()), host.data(), host.size());
  return buffer;
}

absl::StatusOr<std::shared_ptr<DeviceStream>> TheFakeDevice::NewStream() {
  RETURN_IF_ERROR(Check());
  absl::MutexLock lock(&mu_);
  uint64_t seed = options_.seed + ++streams_made_;
  auto stream = std::make_shared<FakeStream>(this, Draw(&seed));
  streams_.push_back(stream.get());
  return stream;
}

void TheFakeDevice::Forget(FakeStream* stream) {
  absl::MutexLock lock(&mu_);
  streams_.erase(std::find(streams_.begin(), streams_.end(), stream));
}

bool TheFakeDevice::Drain() {
  bool any = false;
  for (bool more = true; more;) {
    std::vector<std::shared_ptr<DeviceStream>> streams;
    {
      absl::MutexLock lock(&mu_);
      for (FakeStream* stream : streams_) {
        if (auto live = stream->weak_from_this().lock()) streams.push_back(std::move(live));
      }
    }
    more = false;
    for (const auto& stream : streams) {
      while (static_cast<FakeStream*>(stream.get())->Drain()) more = true;
    }
    any = any || more;
  }
  return any;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FakeDevice>> FakeDevice::Make(env::Env* env,
                                                             const FakeDeviceOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<FakeMemory> memory, FakeMemory::Map(options.memory_bytes));
  return std::make_unique<TheFakeDevice>(env, options, std::move(memory));
}

}  // namespace coxswain::device
