// C++ wrappers of the table's streams, ops and nodes; and the device, which owns what they use.
#include "runtime/device/plugin_device.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "runtime/base/status.h"

namespace coxswain::device {
namespace {

// The status of a call's code.
absl::Status StatusOf(const std::string& who, int32_t code, const CoxError& error) {
  if (code == COX_OK) return absl::OkStatus();
  const std::string message = absl::StrCat(
      who, ": ", std::string(error.message, strnlen(error.message, sizeof(error.message))));
  if (code == COX_DEVICE_LOST) return DeviceLost(message);
  return absl::Status(static_cast<absl::StatusCode>(code), message);
}

// The number of notifications that the plugin has not made, or is making. Thread-safe.
class Outstanding {
 public:
  void Add() {
    const absl::MutexLock lock(&mu_);
    ++count_;
  }
  void Remove() {
    const absl::MutexLock lock(&mu_);
    --count_;
  }
  // False: some still are after `limit`.
  bool AwaitNone(absl::Duration limit) {
    const absl::MutexLock lock(&mu_);
    return mu_.AwaitWithTimeout(absl::Condition(
                                    +[](int* count) { return *count == 0; }, &count_),
                                limit);
  }

 private:
  absl::Mutex mu_;
  int count_ ABSL_GUARDED_BY(mu_) = 0;
};

// An open device. All of its streams, ops and buffers hold a handle on it.
struct OpenDevice {
  const CoxDeviceApi* api = nullptr;
  CoxDevice* device = nullptr;
  std::string who;  // "GPU:0 (NVIDIA H100)"
  const std::unique_ptr<Outstanding> notifications = std::make_unique<Outstanding>();

  ~OpenDevice() {
    if (device != nullptr) api->close_device(device);
  }
  // Calls a function of the table with the arguments and an error buffer.
  template <typename Function, typename... Args>
  absl::Status Call(Function function, Args... args) const {
    CoxError error = {};
    const int32_t code = function(args..., &error);
    return StatusOf(who, code, error);
  }
};
using OpenDevicePtr = std::shared_ptr<const OpenDevice>;

class PluginStream final : public DeviceStream {
 public:
  PluginStream(OpenDevicePtr open, CoxStream* stream, Device device)
      : open_(std::move(open)), device_(device), stream_(stream) {}
  ~PluginStream() override {
    open_->api->destroy_event(event_);
    open_->api->destroy_stream(stream_);
  }

  absl::StatusOr<Buffer> Allocate(size_t bytes) override {
    void* memory = nullptr;
    RETURN_IF_ERROR(Call(open_->api->allocate_on, bytes, &memory));
    return Buffer::Wrap(memory, bytes, device_, [self = shared_from_this(), memory] {
      static_cast<PluginStream*>(self.get())->Release(memory);
    });
  }
  absl::Status CopyToDevice(const Buffer& to, const Buffer& host) override {
    return Copy(open_->api->copy_to_device, to, host);
  }
  absl::Status CopyToHost(const Buffer& host, const Buffer& from) override {
    return Copy(open_->api->copy_to_host, host, from);
  }
  absl::Status CopyOnDevice(const Buffer& to, const Buffer& from) override {
    const bool here = from.device() == device_ && to.device() == device_;
    return Copy(here ? open_->api->copy_on_device : open_->api->copy_from_device, to, from);
  }
  absl::Status FillZero(const Buffer& to) override {
    return Call(open_->api->fill_zero, to.data(), to.size());
  }
  absl::Status WaitFor(DeviceStream* other) override {
    ASSIGN_OR_RETURN(CoxEvent* const reached, static_cast<PluginStream*>(other)->Record());
    return Call(open_->api->wait, reached);
  }
  absl::Status Notify(Reached reached) override {
    auto waiting = std::make_unique<Waiting>(open_.get(), std::move(reached));
    RETURN_IF_ERROR(Call(open_->api->notify, &Waiting::OnReached, waiting.get()));
    waiting.release();  // OnReached has it
    return absl::OkStatus();
  }
  absl::Status Flush() override { return Call(open_->api->flush); }
  absl::StatusOr<std::unique_ptr<Mark>> SetMark() override {
    auto mark = std::make_unique<EventMark>(open_);
    RETURN_IF_ERROR(open_->Call(open_->api->create_event, open_->device, &mark->event));
    RETURN_IF_ERROR(Call(open_->api->record, mark->event));
    return mark;
  }
  absl::Status Run(CoxOp* op, const CoxRun& run) {
    const absl::MutexLock lock(&mu_);
    return open_->Call(open_->api->run_op, op, stream_, &run);
  }

 private:
  // `open` is not owned: what this holds is dropped on the plugin's thread, where the last handle
  // must not go, because that closes the device. ~PluginDevice waits for it instead.
  class Waiting {
   public:
    Waiting(const OpenDevice* open, Reached reached) : open_(open), reached_(std::move(reached)) {
      open_->notifications->Add();
    }
    ~Waiting() {
      reached_ = nullptr;
      open_->notifications->Remove();
    }

    static void OnReached(void* context, int32_t code) {
      const std::unique_ptr<Waiting> self(static_cast<Waiting*>(context));
      self->reached_(code == COX_OK ? absl::OkStatus()
                                    : DeviceLost(absl::StrCat(self->open_->who, " failed")));
    }

   private:
    const OpenDevice* const open_;
    Reached reached_;
  };

  struct EventMark final : Mark {
    explicit EventMark(OpenDevicePtr device) : open(std::move(device)) {}
    ~EventMark() override { open->api->destroy_event(event); }
    bool reached() const override { return open->api->is_reached(event) != 0; }

    const OpenDevicePtr open;
    CoxEvent* event = nullptr;
  };

  // One thread at a time.
  template <typename Function, typename... Args>
  absl::Status Call(Function function, Args... args) {
    const absl::MutexLock lock(&mu_);
    return open_->Call(function, stream_, args...);
  }
  template <typename Function>
  absl::Status Copy(Function function, const Buffer& to, const Buffer& from) {
    return Call(function, to.data(), from.data(), std::min(to.size(), from.size()));
  }
  // An event that is reached when all that was enqueued until now is done. One event serves for
  // all: a stream that was told to wait for it goes by what it stood for then.
  absl::StatusOr<CoxEvent*> Record() {
    const absl::MutexLock lock(&mu_);
    if (event_ == nullptr) {
      RETURN_IF_ERROR(open_->Call(open_->api->create_event, open_->device, &event_));
    }
    RETURN_IF_ERROR(open_->Call(open_->api->record, stream_, event_));
    return event_;
  }
  void Release(void* memory) {
    const absl::MutexLock lock(&mu_);
    open_->api->release_on(stream_, memory);
  }

  const OpenDevicePtr open_;
  const Device device_;
  CoxStream* const stream_;
  CoxEvent* event_ = nullptr;  // made when it is first wanted
  absl::Mutex mu_;             // one thread at a time uses the stream
};

CoxTensor ToC(const Tensor& tensor) {
  return {tensor.buffer().data(), tensor.shape().dims().data(), tensor.rank(),
          static_cast<int32_t>(tensor.dtype())};
}

class PluginOp final : public DeviceOp {
 public:
  PluginOp(OpenDevicePtr open, CoxOp* op) : open_(std::move(open)), op_(op) {}
  ~PluginOp() override { open_->api->destroy_op(op_); }

  absl::Status Enqueue(DeviceStream* stream, const DeviceOpRun& run) const override {
    absl::InlinedVector<CoxTensor, 8> inputs, outputs;
    for (const Tensor& t : run.inputs) inputs.push_back(ToC(t));
    for (const Tensor& t : run.outputs) outputs.push_back(ToC(t));
    CoxRun c = {};
    c.inputs = inputs.data();
    c.outputs = outputs.data();
    c.num_inputs = static_cast<int32_t>(inputs.size());
    c.num_outputs = static_cast<int32_t>(outputs.size());
    c.fault = static_cast<CoxFault*>(run.fault.data());
    c.node = run.node;
    c.step = run.step.step;
    c.session = run.step.session;
    c.closure = run.step.closure;
    c.seed = run.step.seed;
    return static_cast<PluginStream*>(stream)->Run(op_, c);
  }

 private:
  const OpenDevicePtr open_;
  CoxOp* const op_;
};

// A node as a C struct, with the memory that its pointers refer to.
class NodeInC {
 public:
  NodeInC(const graph::Node& node, const graph::Graph& graph) {
    for (const auto& [name, value] : node.attrs) Add(name, value);
    for (const Output& in : node.inputs) {
      inputs_.push_back(static_cast<int32_t>(graph.type(in).dtype));
    }
    for (const TensorType& type : node.outputs) {
      outputs_.push_back(static_cast<int32_t>(type.dtype));
    }
    c_.op = node.op.c_str();
    c_.attrs = attrs_.data();
    c_.num_attrs = static_cast<int32_t>(attrs_.size());
    c_.input_dtypes = inputs_.data();
    c_.num_inputs = static_cast<int32_t>(inputs_.size());
    c_.output_dtypes = outputs_.data();
    c_.num_outputs = static_cast<int32_t>(outputs_.size());
    const auto compute = node.attrs.find("compute");
    const std::string* const word =
        compute == node.attrs.end() ? nullptr : compute->second.get<std::string>();
    c_.compute = word != nullptr && *word == "bf16"   ? COX_COMPUTE_BF16
                 : word != nullptr && *word == "tf32" ? COX_COMPUTE_TF32
                                                      : COX_COMPUTE_F32;
  }
  const CoxNode* get() const { return &c_; }

 private:
  void Add(const std::string& name, const AttrValue& value) {
    CoxAttr attr = {};
    attr.name = name.c_str();
    attr.kind = COX_ATTR_INTEGER;
    if (const auto* i = value.get<int64_t>()) {
      attr.integer = *i;
    } else if (const auto* b = value.get<bool>()) {
      attr.integer = *b ? 1 : 0;
    } else if (const auto* dtype = value.get<DType>()) {
      attr.integer = static_cast<int64_t>(*dtype);
    } else if (const auto* real = value.get<double>()) {
      attr.kind = COX_ATTR_REAL;
      attr.real = *real;
    } else if (const auto* text = value.get<std::string>()) {
      attr.kind = COX_ATTR_TEXT;
      attr.text = text->c_str();
    } else if (const auto* list = value.get<std::vector<int64_t>>()) {
      SetList(*list, &attr);
    } else if (const auto* shape = value.get<Shape>()) {
      SetList(shape->dims(), &attr);
    } else {
      return;  // tensors and lists of words, which no op of a device has
    }
    attrs_.push_back(attr);
  }
  static void SetList(absl::Span<const int64_t> list, CoxAttr* attr) {
    attr->kind = COX_ATTR_LIST;
    attr->list = list.data();
    attr->count = static_cast<int64_t>(list.size());
  }

  std::vector<CoxAttr> attrs_;
  std::vector<int32_t> inputs_, outputs_;
  CoxNode c_ = {};
};

class PluginDevice final : public DeviceRuntime {
 public:
  PluginDevice(Device device, OpenDevicePtr open, const CoxDeviceInfo& info)
      : DeviceRuntime(device, PinnedBy(open)), open_(std::move(open)), info_(info) {}
  ~PluginDevice() override {
    if (open_->notifications->AwaitNone(kLongestWait)) {
      EndStreams();
      return;
    }
    // The device hangs. What its notifications may use one day is never freed.
    new std::vector<std::shared_ptr<DeviceStream>>(TakeStreams());
    new OpenDevicePtr(open_);
    new std::shared_ptr<PinnedPool>(shared_pinned());
  }

  std::string name() const override { return info_.name; }
  int64_t memory_bytes() const override { return info_.memory_bytes; }

  absl::StatusOr<std::unique_ptr<DeviceOp>> CreateOp(const graph::Node& node,
                                                     const graph::Graph& graph) override {
    CoxOp* op = nullptr;
    const NodeInC c(node, graph);
    RETURN_IF_ERROR(open_->Call(open_->api->create_op, open_->device, c.get(), &op));
    return std::make_unique<PluginOp>(open_, op);
  }

  absl::StatusOr<Buffer> Constant(const Buffer& host) override {
    ASSIGN_OR_RETURN(const Buffer pinned, this->pinned()->Allocate(host.size()));
    if (host.size() > 0) std::memcpy(pinned.data(), host.data(), host.size());
    ASSIGN_OR_RETURN(Buffer buffer, Allocate(host.size()));
    ASSIGN_OR_RETURN(std::shared_ptr<DeviceStream> stream, BorrowStream());
    absl::Status copied = stream->CopyToDevice(buffer, pinned);
    struct Reached {
      absl::Notification done;
      absl::Status status;
    };
    const auto reached = std::make_shared<Reached>();
    if (copied.ok()) {
      copied = stream->Notify([reached, pinned](absl::Status status) {
        reached->status = std::move(status);
        reached->done.Notify();
      });
    }
    if (copied.ok() && reached->done.WaitForNotificationWithTimeout(kLongestWait)) {
      copied = reached->status;
    } else if (copied.ok()) {
      new Buffer(buffer);  // never freed: the copy may still write there
      copied = absl::DeadlineExceededError(absl::StrCat(info_.name, ": a constant of ", host.size(),
                                                        " bytes was not copied within ",
                                                        absl::FormatDuration(kLongestWait)));
    }
    ReturnStream(std::move(stream));
    RETURN_IF_ERROR(copied);
    return buffer;
  }

  absl::StatusOr<Buffer> Allocate(size_t bytes) override {
    void* memory = nullptr;
    RETURN_IF_ERROR(open_->Call(open_->api->allocate, open_->device, bytes, &memory));
    return Buffer::Wrap(memory, bytes, device(),
                        [open = open_, memory] { open->api->free_memory(open->device, memory); });
  }

  absl::StatusOr<std::shared_ptr<DeviceStream>> NewStream() override {
    CoxStream* stream = nullptr;
    RETURN_IF_ERROR(open_->Call(open_->api->create_stream, open_->device, &stream));
    return std::make_shared<PluginStream>(open_, stream, device());
  }

 private:
  static std::shared_ptr<PinnedPool> PinnedBy(const OpenDevicePtr& open) {
    return std::make_shared<PinnedPool>(
        [open](size_t bytes) -> absl::StatusOr<void*> {
          void* block = nullptr;
          RETURN_IF_ERROR(open->Call(open->api->allocate_pinned, open->device, bytes, &block));
          return block;
        },
        [open](void* block) { open->api->free_pinned(open->device, block); });
  }

  const OpenDevicePtr open_;
  const CoxDeviceInfo info_;
};

}  // namespace

absl::StatusOr<int> CountPluginDevices(const CoxDeviceApi* api) {
  CoxError error = {};
  int32_t count = 0;
  RETURN_IF_ERROR(StatusOf(api->name, api->device_count(&count, &error), error));
  return count;
}

absl::StatusOr<std::unique_ptr<DeviceRuntime>> NewPluginDevice(const CoxDeviceApi* api, int number,
                                                               int index) {
  auto open = std::make_shared<OpenDevice>();
  open->api = api;
  open->who = absl::StrCat("GPU ", number, " (", api->name, ")");
  RETURN_IF_ERROR(open->Call(api->open_device, static_cast<int32_t>(number), &open->device));
  CoxDeviceInfo info = {};
  RETURN_IF_ERROR(open->Call(api->device_info, open->device, &info));
  info.name[sizeof(info.name) - 1] = 0;
  open->who = absl::StrCat("GPU:", index, " (", info.name, ")");
  const Device device{DeviceType::kGpu, static_cast<int16_t>(index)};
  return std::make_unique<PluginDevice>(device, std::move(open), info);
}

}  // namespace coxswain::device
