// A function compiled: order, priorities, arguments. Then a run of it (ActiveRun) in one thread,
// and one with calls to PS in whatever threads there are (AsyncRun).
#include "runtime/function/executor.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/device/device_runtime.h"
#include "runtime/function/device_run.h"
#include "runtime/function/place_on_devices.h"
#include "runtime/tensor/limits.h"

namespace coxswain::function {

// How a node is run.
enum class NodeKind : uint8_t {
  kArgument,  // its slot is set before
  kKernel,
  kPsCall,
  kDeviceOp,
  kDeviceConstant,
  kCopyToDevice,
  kCopyToHost,
  kCopyBetweenDevices,
};

struct CompiledNode {
  NodeKind kind = NodeKind::kArgument;
  std::unique_ptr<graph::Kernel> kernel;
  std::unique_ptr<device::DeviceOp> device_op;
  std::unique_ptr<OutputTypes> output_types;  // of a device's op
  Tensor constant;                            // on the device
  int device = 0;                             // of its op, constant or copy
  int from = 0;                               // of a copy between devices
  PsCallTarget target;
  int rows_on = -1;         // of a call: the device that takes its rows as they come; -1: none
  std::vector<char> stays;  // of a copy to the host, by value: it may stay where it is
  std::vector<int> inputs;  // slots
  int first_output = 0;
  int num_outputs = 0;
  std::vector<int> consumers;  // nodes, once per edge
  int pending = 0;             // edges into this node
  int64_t priority = 0;        // smaller runs first
};

CompiledFunction::CompiledFunction(graph::Function function, Devices devices)
    : function_(std::move(function)), devices_(std::move(devices)) {}
CompiledFunction::~CompiledFunction() = default;

namespace {

// Where there is no device: none may be asked for.
absl::Status CheckOnHost(const graph::Function& function) {
  for (const graph::Node& node : function.graph.nodes()) {
    if (!IsCopy(node) && !IsOnDevice(node)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "function '", function.name, "', node '", node.name, "' (", node.op, "): wanted on ",
        IsCopy(node) ? "a GPU" : node.device.ToString(),
        function.device == DeviceChoice::kCpu ? ", but the function is to run on the CPU"
                                              : ", but there is no GPU here"));
  }
  return absl::OkStatus();
}

// By a device's number among those of a step: its number among those that the function uses. -1: it
// uses it not.
std::vector<int> NumberDevices(const graph::Function& function, size_t devices) {
  std::vector<int> numbers(devices, -1);
  for (const graph::Node& node : function.graph.nodes()) {
    if (IsOnDevice(node)) numbers[static_cast<size_t>(DeviceOf(node))] = 0;
  }
  int next = 0;
  for (int& number : numbers) {
    if (number == 0) number = next++;
  }
  return numbers;
}

NodeKind KindOfCopy(const graph::Node& node) {
  if (node.op == kCopyToDeviceOp) return NodeKind::kCopyToDevice;
  return node.op == kCopyToHostOp ? NodeKind::kCopyToHost : NodeKind::kCopyBetweenDevices;
}

absl::StatusOr<Tensor> ConstantOnDevice(const graph::Node& node, device::DeviceRuntime* device) {
  ASSIGN_OR_RETURN(const Tensor value, graph::GetAttr<Tensor>(node.attrs, "value"));
  ASSIGN_OR_RETURN(Buffer buffer, device->Constant(value.buffer().Slice(0, value.bytes())));
  return Tensor(value.dtype(), value.shape(), std::move(buffer));
}

}  // namespace

absl::Status CompiledFunction::CompileNode(const graph::Node& node, const std::vector<int>& numbers,
                                           CompiledNode* compiled) {
  if (node.op == "Arg") return absl::OkStatus();
  const auto number_of = [&](const graph::Node& on) {
    return numbers[static_cast<size_t>(DeviceOf(on))];
  };
  if (IsCopy(node) || IsOnDevice(node)) {
    compiled->device = number_of(node);
    if (node.op != "Const") ++enqueued_count_;
  }
  if (node.op == kPsCallOp) {
    compiled->kind = NodeKind::kPsCall;
    compiled->target = GetPsCallTarget(node);
    has_ps_calls_ = true;
  } else if (IsCopy(node)) {
    compiled->kind = KindOfCopy(node);
    if (node.op == kCopyBetweenDevicesOp) {
      compiled->from = number_of(function_.graph.node(node.inputs.front().node));
    }
  } else if (IsOnDevice(node) && node.op == "Const") {
    compiled->kind = NodeKind::kDeviceConstant;
    ASSIGN_OR_RETURN(compiled->constant,
                     ConstantOnDevice(node, devices_[static_cast<size_t>(compiled->device)].get()));
  } else if (IsOnDevice(node)) {
    compiled->kind = NodeKind::kDeviceOp;
    ASSIGN_OR_RETURN(compiled->device_op, devices_[static_cast<size_t>(compiled->device)]->CreateOp(
                                              node, function_.graph));
    compiled->output_types = std::make_unique<OutputTypes>();
  } else {
    compiled->kind = NodeKind::kKernel;
    ASSIGN_OR_RETURN(compiled->kernel, function_.graph.registry()->CreateKernel(node));
    ++kernel_count_;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const CompiledFunction>> CompiledFunction::Compile(
    graph::Function function, Devices devices) {
  std::vector<int> numbers;
  if (devices.empty()) {
    RETURN_IF_ERROR(CheckOnHost(function));
  } else {
    const auto has_code = [&](const graph::Node& node) {
      return devices.front()->CreateOp(node, function.graph).ok();
    };
    ASSIGN_OR_RETURN(function,
                     PlaceOnDevices(function, static_cast<int>(devices.size()), has_code));
    numbers = NumberDevices(function, devices.size());
    Devices used;
    for (size_t i = 0; i < devices.size(); ++i) {
      if (numbers[i] >= 0) used.push_back(std::move(devices[i]));
    }
    devices = std::move(used);
  }
  std::shared_ptr<CompiledFunction> compiled(
      new CompiledFunction(std::move(function), std::move(devices)));
  const graph::Graph& graph = compiled->function_.graph;
  int slots = 0;
  for (const graph::Node& node : graph.nodes()) {
    CompiledNode c;
    RETURN_IF_ERROR(compiled->CompileNode(node, numbers, &c));
    c.first_output = slots;
    c.num_outputs = static_cast<int>(node.outputs.size());
    slots += c.num_outputs;
    for (const Output& in : node.inputs) {
      c.inputs.push_back(compiled->nodes_[in.node].first_output + in.index);
      compiled->nodes_[in.node].consumers.push_back(node.id);
    }
    for (int control : node.control_inputs) {
      compiled->nodes_[control].consumers.push_back(node.id);
    }
    c.pending = static_cast<int>(node.inputs.size() + node.control_inputs.size());
    compiled->nodes_.push_back(std::move(c));
  }
  compiled->slot_uses_.assign(slots, 0);
  for (const CompiledNode& c : compiled->nodes_) {
    for (int slot : c.inputs) ++compiled->slot_uses_[slot];
  }
  for (const auto& r : compiled->function_.results) {
    ++compiled->slot_uses_[compiled->nodes_[r.output.node].first_output + r.output.index];
  }
  for (const auto& a : compiled->function_.arguments) {
    compiled->argument_slots_.push_back(compiled->nodes_[a.node].first_output);
  }
  compiled->AssignPriorities();
  compiled->FindExchanges();
  return std::shared_ptr<const CompiledFunction>(std::move(compiled));
}

// A node that an early frame waits for goes before one that only a later frame, or none, waits for.
void CompiledFunction::AssignPriorities() {
  const int n = static_cast<int>(nodes_.size());
  constexpr int64_t kNever = std::numeric_limits<int32_t>::max();
  std::vector<int64_t> needed_by(n, kNever);
  for (int id = n - 1; id >= 0; --id) {
    if (nodes_[id].kind == NodeKind::kPsCall) {
      needed_by[id] = std::min<int64_t>(needed_by[id], nodes_[id].target.segment);
    }
    for (const Output& in : function_.graph.node(id).inputs) {
      needed_by[in.node] = std::min(needed_by[in.node], needed_by[id]);
    }
  }
  for (int id = 0; id < n; ++id) {
    const bool is_call = nodes_[id].kind == NodeKind::kPsCall;
    nodes_[id].priority = needed_by[id] * (int64_t{n} + 1) + (is_call ? 0 : id + 1);
  }
}

// Who takes each slot, and as which input; a result of the function is taken by -1.
std::vector<std::vector<std::pair<int, int64_t>>> CompiledFunction::FindTakers() const {
  std::vector<std::vector<std::pair<int, int64_t>>> takers(slot_uses_.size());
  for (size_t id = 0; id < nodes_.size(); ++id) {
    int64_t position = 0;
    for (const int slot : nodes_[id].inputs) {
      takers[static_cast<size_t>(slot)].emplace_back(static_cast<int>(id), position++);
    }
  }
  for (const auto& r : function_.results) {
    const int slot = nodes_[static_cast<size_t>(r.output.node)].first_output + r.output.index;
    takers[static_cast<size_t>(slot)].emplace_back(-1, 0);
  }
  return takers;
}

void CompiledFunction::FindExchanges() {
  if (devices_.empty()) return;
  const auto takers = FindTakers();
  // The device that it copies to; -1: it is no such copy.
  const auto copies_to = [this](int taker) {
    if (taker < 0) return -1;
    const CompiledNode& node = nodes_[static_cast<size_t>(taker)];
    return node.kind == NodeKind::kCopyToDevice ? node.device : -1;
  };
  const auto takes_on_gpu = [this](int taker, int64_t position) {
    if (taker < 0 || nodes_[static_cast<size_t>(taker)].kind != NodeKind::kPsCall) return false;
    const std::vector<int64_t> free = GpuInputs(function_.graph.node(taker));
    return std::find(free.begin(), free.end(), position) != free.end();
  };
  for (size_t id = 0; id < nodes_.size(); ++id) {
    CompiledNode& node = nodes_[id];
    const auto takers_of = [&](int64_t output) -> const std::vector<std::pair<int, int64_t>>& {
      return takers[static_cast<size_t>(node.first_output + output)];
    };
    if (node.kind == NodeKind::kPsCall) {
      std::set<int> devices;
      for (const int64_t output : GpuOutputs(function_.graph.node(static_cast<int>(id)))) {
        for (const auto& [taker, position] : takers_of(output)) devices.insert(copies_to(taker));
      }
      if (devices.size() == 1) node.rows_on = *devices.begin();
    } else if (node.kind == NodeKind::kCopyToHost) {
      for (int output = 0; output < node.num_outputs; ++output) {
        const auto& by = takers_of(output);
        node.stays.push_back(std::all_of(by.begin(), by.end(), [&](const auto& taker) {
          return takes_on_gpu(taker.first, taker.second);
        }));
      }
    }
  }
}

absl::Status CompiledFunction::CheckArguments(const std::vector<Tensor>& arguments) const {
  if (arguments.size() != function_.arguments.size()) {
    return absl::InvalidArgumentError(absl::StrCat("function '", function_.name, "': wanted ",
                                                   function_.arguments.size(), " arguments, found ",
                                                   arguments.size()));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& wanted = function_.arguments[i];
    if (arguments[i].dtype() != wanted.type.dtype ||
        !wanted.type.shape.Accepts(arguments[i].shape())) {
      return absl::InvalidArgumentError(
          absl::StrCat("function '", function_.name, "', argument '", wanted.name, "': wanted ",
                       wanted.type.ToString(), ", found ", DTypeName(arguments[i].dtype()),
                       arguments[i].shape().ToString()));
    }
  }
  return absl::OkStatus();
}

// The values and the ready queue of one run. Used by one thread at a time.
class ActiveRun {
 public:
  ActiveRun(const CompiledFunction& function, const RunOptions& options)
      : f_(function),
        options_(options),
        slots_(function.slot_uses_.size()),
        uses_(function.slot_uses_),
        pending_(function.nodes_.size()),
        nodes_left_(static_cast<int>(function.nodes_.size())),
        work_left_(function.kernel_count_ + function.enqueued_count_) {}

  absl::Status Start(std::vector<Tensor> arguments) {
    if (!f_.devices_.empty()) {
      ASSIGN_OR_RETURN(device_run_,
                       DeviceRun::Start(f_.devices_, &f_.function_, options_.trace, options_.step));
    }
    for (size_t i = 0; i < arguments.size(); ++i) {
      slots_[f_.argument_slots_[i]] = std::move(arguments[i]);
    }
    for (size_t id = 0; id < f_.nodes_.size(); ++id) {
      pending_[id] = f_.nodes_[id].pending;
      if (pending_[id] == 0) PushReady(static_cast<int>(id));
    }
    return absl::OkStatus();
  }

  // Lets go of all values and of the devices.
  void End() {
    slots_.clear();
    device_run_.reset();
  }

  bool HasReady() const { return !ready_.empty(); }
  // Nothing is ready, until something has come.
  void OnIdle() {
    if (device_run_ != nullptr) device_run_->OnIdle();
  }
  bool AllDone() const { return nodes_left_ == 0; }
  // Kernels to run, and work to enqueue on devices.
  int work_left() const { return work_left_; }

  int PopReady() {
    std::pop_heap(ready_.begin(), ready_.end(), Later{&f_});
    const int id = ready_.back();
    ready_.pop_back();
    return id;
  }

  // The inputs of a node; those used for the last time are moved out of their slots.
  template <typename Container>
  void TakeInputs(const CompiledNode& node, Container* inputs) {
    for (int slot : node.inputs) {
      if (--uses_[slot] == 0) {
        inputs->push_back(std::move(slots_[slot]));
      } else {
        inputs->push_back(slots_[slot]);
      }
    }
  }

  // Takes the kernels that are as urgent as the next one and ready, too, if they are worth several
  // threads; else nothing.
  std::vector<int> PopTogether() {
    if (ready_.size() < 2 || options_.pool == nullptr || options_.pool->threads() < 2) return {};
    const int next = ready_.front();
    if (f_.nodes_[next].kind != NodeKind::kKernel || InputBytes(next) < kLeastTogether) return {};
    const auto together = [&](int id) {
      return f_.nodes_[id].kind == NodeKind::kKernel && Urgency(id) == Urgency(next);
    };
    size_t bytes = 0;
    for (const int id : ready_) bytes += together(id) ? InputBytes(id) : 0;
    if (bytes < kWorthThreads) return {};
    std::vector<int> taken;
    const auto rest =
        std::stable_partition(ready_.begin(), ready_.end(), [&](int id) { return !together(id); });
    taken.assign(rest, ready_.end());
    ready_.erase(rest, ready_.end());
    std::make_heap(ready_.begin(), ready_.end(), Later{&f_});
    std::sort(taken.begin(), taken.end(), [&](int a, int b) { return Later{&f_}(b, a); });
    return taken;
  }

  // Runs kernels that do not wait for each other, with the threads of the pool that have time.
  // Returns the error of the first that has one. Afterwards they are to be finished.
  absl::Status RunTogether(const std::vector<int>& ids) {
    struct Prepared {
      absl::InlinedVector<Tensor, 8> inputs;
      absl::Status status;
    };
    std::vector<Prepared> prepared(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) TakeInputs(f_.nodes_[ids[i]], &prepared[i].inputs);
    work_left_ -= static_cast<int>(ids.size());
    std::atomic<size_t> next{0};
    const int64_t threads = std::min<int64_t>(options_.pool->threads(), prepared.size());
    options_.pool->ParallelFor(threads, 1, [&](int64_t, int64_t) {
      for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < ids.size();) {
        const CompiledNode& node = f_.nodes_[ids[i]];
        const absl::Span<Tensor> outputs(slots_.data() + node.first_output,
                                         static_cast<size_t>(node.num_outputs));
        prepared[i].status = RunKernel(node, f_.function_.graph.node(ids[i]),
                                       absl::MakeSpan(prepared[i].inputs), outputs);
      }
    });
    for (size_t i = 0; i < ids.size(); ++i) {
      if (prepared[i].status.ok()) continue;
      return Annotate(prepared[i].status, Name(f_.function_.graph.node(ids[i])));
    }
    return absl::OkStatus();
  }

  // A node that is over when this returns; on the device: when what follows is enqueued after it.
  absl::Status RunNode(int id) {
    const CompiledNode& node = f_.nodes_[id];
    if (node.kind == NodeKind::kArgument) return absl::OkStatus();
    if (node.kind == NodeKind::kDeviceConstant) {
      slots_[node.first_output] = node.constant;
      return absl::OkStatus();
    }
    --work_left_;
    absl::InlinedVector<Tensor, 8> inputs;
    TakeInputs(node, &inputs);
    absl::Span<Tensor> outputs(slots_.data() + node.first_output,
                               static_cast<size_t>(node.num_outputs));
    const graph::Node& n = f_.function_.graph.node(id);
    absl::Status status = node.kind == NodeKind::kKernel
                              ? RunKernel(node, n, absl::MakeSpan(inputs), outputs)
                              : Enqueue(node, n, inputs, outputs);
    if (!status.ok()) return Annotate(status, Name(n));
    return absl::OkStatus();
  }

  // "function 'f', node 'n' (Op)"
  std::string Name(const graph::Node& n) const {
    return absl::StrCat("function '", f_.function_.name, "', node '", n.name, "' (", n.op, ")");
  }

  // As a call: `done` gets the values, unless this returns an error.
  absl::Status CopyToHost(int id, DeviceRun::Done done) {
    --work_left_;
    const CompiledNode& node = f_.nodes_[id];
    absl::InlinedVector<Tensor, 8> inputs, moved;
    TakeInputs(node, &inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (Stays(node, i)) {
        slots_[static_cast<size_t>(node.first_output) + i] = std::move(inputs[i]);
      } else {
        moved.push_back(std::move(inputs[i]));
      }
    }
    return Annotate(device_run_->CopyToHost(node.device, moved, std::move(done)),
                    Name(f_.function_.graph.node(id)));
  }

  // What a copy to the host has brought; the rest stays where it is.
  void SetCopied(int id, std::vector<Tensor> copied) {
    const CompiledNode& node = f_.nodes_[id];
    size_t next = 0;
    for (int i = 0; i < node.num_outputs; ++i) {
      if (Stays(node, static_cast<size_t>(i))) continue;
      slots_[static_cast<size_t>(node.first_output + i)] = std::move(copied[next++]);
    }
  }

  PsCallTarget TargetOf(const CompiledNode& node) const {
    PsCallTarget target = node.target;
    if (options_.exchanges_on_gpu && node.rows_on >= 0) {
      target.rows_on = f_.devices_[static_cast<size_t>(node.rows_on)]->device().index;
    }
    return target;
  }

  absl::Status RunKernel(const CompiledNode& node, const graph::Node& n, absl::Span<Tensor> inputs,
                         absl::Span<Tensor> outputs) {
    graph::KernelContext context(inputs, outputs, options_.step, options_.pool, options_.variables);
    RETURN_IF_ERROR(CatchAllocationErrors([&] { return node.kernel->Compute(&context); }));
    return CheckOutputs(n, outputs);
  }

  absl::Status Enqueue(const CompiledNode& node, const graph::Node& n,
                       absl::Span<const Tensor> inputs, absl::Span<Tensor> outputs) {
    if (node.kind == NodeKind::kCopyToDevice) {
      return device_run_->CopyToDevice(node.device, inputs, options_.pool, outputs);
    }
    if (node.kind == NodeKind::kCopyBetweenDevices) {
      return device_run_->CopyBetweenDevices(node.from, node.device, inputs, outputs);
    }
    return device_run_->RunOp(node.device, *node.device_op, n, node.output_types.get(), inputs,
                              outputs, options_.step);
  }

  // What kernels after this one rely on: the dtypes that were inferred, and shapes within bounds.
  static absl::Status CheckOutputs(const graph::Node& node, absl::Span<const Tensor> outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      RETURN_IF_ERROR(CheckShape(outputs[i].shape()));
      if (outputs[i].dtype() == node.outputs[i].dtype) continue;
      return absl::InternalError(absl::StrCat("output ", i, ": wanted ",
                                              DTypeName(node.outputs[i].dtype), ", found ",
                                              DTypeName(outputs[i].dtype())));
    }
    return absl::OkStatus();
  }

  void SetOutputs(int id, std::vector<Tensor> outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      slots_[f_.nodes_[id].first_output + i] = std::move(outputs[i]);
    }
  }

  void Finish(int id) {
    const CompiledNode& node = f_.nodes_[id];
    --nodes_left_;
    for (int i = 0; i < node.num_outputs; ++i) {
      if (uses_[node.first_output + i] == 0) slots_[node.first_output + i] = Tensor();
    }
    for (int consumer : node.consumers) {
      if (--pending_[consumer] == 0) PushReady(consumer);
    }
  }

  std::vector<Tensor> TakeResults() {
    std::vector<Tensor> results;
    for (const auto& r : f_.function_.results) {
      const int slot = f_.nodes_[r.output.node].first_output + r.output.index;
      results.push_back(slots_[slot]);
    }
    return results;
  }

  const CompiledNode& node(int id) const { return f_.nodes_[id]; }

 private:
  struct Later {
    const CompiledFunction* f;
    bool operator()(int a, int b) const { return Priority(a) > Priority(b); }
    int64_t Priority(int id) const { return f->nodes_[id].priority; }
  };

  bool Stays(const CompiledNode& node, size_t value) const {
    return options_.exchanges_on_gpu && node.stays[value] != 0;
  }

  // Kernels below the first are not worth a look at the others; all together below the second are
  // done before another thread is awake.
  static constexpr size_t kLeastTogether = 32 << 10, kWorthThreads = 1 << 20;

  size_t InputBytes(int id) const {
    size_t bytes = 0;
    for (const int slot : f_.nodes_[id].inputs) bytes += slots_[slot].bytes();
    return bytes;
  }
  // The same for nodes that the same frame waits for.
  int64_t Urgency(int id) const {
    return f_.nodes_[id].priority / (static_cast<int64_t>(f_.nodes_.size()) + 1);
  }

  void PushReady(int id) {
    ready_.push_back(id);
    std::push_heap(ready_.begin(), ready_.end(), Later{&f_});
  }

  const CompiledFunction& f_;
  RunOptions options_;
  std::vector<Tensor> slots_;
  std::vector<int> uses_;
  std::vector<int> pending_;
  std::vector<int> ready_;  // a heap by priority
  int nodes_left_;
  int work_left_;
  std::unique_ptr<DeviceRun> device_run_;  // null: all on the CPU
};

absl::StatusOr<std::vector<Tensor>> CompiledFunction::Run(std::vector<Tensor> arguments,
                                                          const RunOptions& options) const {
  COX_CHECK(!has_ps_calls_ && devices_.empty(), function_.name, " must be run with RunAsync");
  RETURN_IF_ERROR(CheckArguments(arguments));
  ActiveRun state(*this, options);
  RETURN_IF_ERROR(state.Start(std::move(arguments)));
  while (state.HasReady()) {
    const int id = state.PopReady();
    RETURN_IF_ERROR(state.RunNode(id));
    state.Finish(id);
  }
  return state.TakeResults();
}

// A run with calls to PS. Replies go through a mailbox; whoever finds the run idle works on it.
class AsyncRun : public std::enable_shared_from_this<AsyncRun> {
 public:
  AsyncRun(std::shared_ptr<const CompiledFunction> function, const RunOptions& options,
           PsCaller* caller, CompiledFunction::Done done)
      : function_(std::move(function)),
        pool_(options.pool),
        trace_(options.trace),
        cancelled_(options.cancelled),
        step_(options.step),
        caller_(caller),
        done_(std::move(done)),
        state_(*function_, options) {}

  void Start(std::vector<Tensor> arguments) {
    status_ = function_->CheckArguments(arguments);
    if (status_.ok()) status_ = state_.Start(std::move(arguments));
    Advance();
  }

 private:
  struct Reply {
    int node;
    absl::StatusOr<std::vector<Tensor>> outputs;
  };

  // `borrow`: the thread that brings it may go on with the run.
  void OnReply(int node, absl::StatusOr<std::vector<Tensor>> outputs, bool borrow) {
    bool inline_ok;
    {
      absl::MutexLock lock(&mu_);
      mailbox_.push_back({node, std::move(outputs)});
      if (active_) return;
      active_ = true;
      // Nothing left to compute: the last acknowledgements. Not worth waking a thread for.
      inline_ok = borrow && idle_work_left_ == 0;
    }
    if (inline_ok) {
      Advance();
    } else {
      pool_->Schedule([self = shared_from_this()] { self->Advance(); });
    }
  }

  // Runs what is ready; ends when nothing is, with `active_` cleared. Called with `active_` set.
  void Advance() {
    // Ends before another thread can go on with the run: that one may end it, and the recorder.
    trace::TraceScope stretch(trace_, trace::SpanKind::kCompute, step_.closure, step_.step);
    while (true) {
      while (status_.ok() && state_.HasReady()) {
        if (Cancelled()) {
          status_ = absl::CancelledError("cancelled");
        } else if (const std::vector<int> ids = state_.PopTogether(); !ids.empty()) {
          status_ = state_.RunTogether(ids);
          if (status_.ok()) {
            for (const int id : ids) state_.Finish(id);
          }
        } else {
          Step(state_.PopReady());
        }
      }
      state_.OnIdle();
      std::vector<Reply> replies;
      {
        absl::MutexLock lock(&mu_);
        if (mailbox_.empty()) {
          if (calls_out_ > 0) {
            // After an error what a device holds is given back by the pool, too.
            idle_work_left_ =
                status_.ok() || !function_->devices().empty() ? state_.work_left() : 0;
            stretch.End();
            active_ = false;
            return;
          }
        }
        replies.swap(mailbox_);
      }
      if (replies.empty()) break;  // no calls out and nothing ready: over
      for (Reply& reply : replies) TakeReply(std::move(reply));
    }
    stretch.End();
    absl::StatusOr<std::vector<Tensor>> results;
    if (status_.ok()) {
      COX_CHECK(state_.AllDone(), "a run ended with nodes left over");
      results = state_.TakeResults();
    } else {
      results = status_;
    }
    // All that this run has goes here, on this thread: the last handle on the run itself may go on
    // the one that brought what came up last, where devices cannot be used.
    state_.End();
    const std::shared_ptr<const CompiledFunction> function = std::move(function_);
    std::exchange(done_, nullptr)(std::move(results));
  }

  bool Cancelled() const {
    return cancelled_ != nullptr && cancelled_->load(std::memory_order_relaxed);
  }

  void Step(int id) {
    const CompiledNode& node = state_.node(id);
    if (node.kind == NodeKind::kPsCall) {
      Call(id, node);
    } else if (node.kind == NodeKind::kCopyToHost) {
      CopyToHost(id);
    } else {
      status_ = state_.RunNode(id);
      if (status_.ok()) state_.Finish(id);
    }
  }

  void Call(int id, const CompiledNode& node) {
    std::vector<Tensor> inputs;
    inputs.reserve(node.inputs.size());
    state_.TakeInputs(node, &inputs);
    ++calls_out_;
    caller_->Call(state_.TargetOf(node), std::move(inputs),
                  [self = shared_from_this(), id](absl::StatusOr<std::vector<Tensor>> outputs) {
                    self->OnReply(id, std::move(outputs), /*borrow=*/true);
                  });
  }

  void CopyToHost(int id) {
    const absl::Duration asked = TraceNow();
    status_ = state_.CopyToHost(
        id, [self = shared_from_this(), id, asked](absl::StatusOr<std::vector<Tensor>> outputs) {
          self->TraceGpu(id, asked);
          self->OnReply(id, std::move(outputs), /*borrow=*/false);
        });
    if (status_.ok()) ++calls_out_;
  }

  absl::Duration TraceNow() const {
    const bool tracing = trace_ != nullptr && trace_->enabled();
    return tracing ? trace_->Now() : absl::ZeroDuration();
  }
  // A span from `asked` on, unless that is zero.
  void TraceGpu(int id, absl::Duration asked) const {
    if (asked == absl::ZeroDuration()) return;
    const auto& device = function_->devices()[static_cast<size_t>(state_.node(id).device)];
    trace_->Record(trace::SpanKind::kGpu, asked, trace_->Now(), step_.closure, step_.step,
                   static_cast<uint32_t>(device->device().index));
  }

  void TakeReply(Reply reply) {
    --calls_out_;
    if (!status_.ok()) return;
    if (state_.node(reply.node).kind == NodeKind::kCopyToHost) {
      status_ = reply.outputs.status();  // that of a device names the node that was wrong
      if (!status_.ok()) return;
      state_.SetCopied(reply.node, *std::move(reply.outputs));
      state_.Finish(reply.node);
      return;
    }
    status_ = CheckReply(reply);
    if (!status_.ok()) return;
    state_.SetOutputs(reply.node, *std::move(reply.outputs));
    state_.Finish(reply.node);
  }

  // A reply comes from a peer: it may hold anything.
  absl::Status CheckReply(const Reply& reply) const {
    const graph::Node& node = function_->function().graph.node(reply.node);
    if (!reply.outputs.ok()) {
      return Annotate(reply.outputs.status(), absl::StrCat("function '", function_->function().name,
                                                           "', node '", node.name, "'"));
    }
    if (reply.outputs->size() != node.outputs.size()) {
      return absl::InternalError(absl::StrCat(node.name, ": wanted ", node.outputs.size(),
                                              " tensors, received ", reply.outputs->size()));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Tensor& t = (*reply.outputs)[i];
      if (t.dtype() != node.outputs[i].dtype || !node.outputs[i].shape.Accepts(t.shape())) {
        return absl::InternalError(absl::StrCat(node.name, ": tensor ", i, ": wanted ",
                                                node.outputs[i].ToString(), ", received ",
                                                DTypeName(t.dtype()), t.shape().ToString()));
      }
    }
    return absl::OkStatus();
  }

  std::shared_ptr<const CompiledFunction> function_;
  env::ComputePool* pool_;
  trace::TraceRecorder* trace_;
  const std::atomic<bool>* const cancelled_;  // null: never
  const graph::StepInfo step_;
  PsCaller* caller_;
  CompiledFunction::Done done_;
  // Touched only by the thread that has set `active_`.
  ActiveRun state_;
  absl::Status status_;
  int calls_out_ = 0;

  absl::Mutex mu_;
  std::vector<Reply> mailbox_ ABSL_GUARDED_BY(mu_);
  bool active_ ABSL_GUARDED_BY(mu_) = true;
  int idle_work_left_ ABSL_GUARDED_BY(mu_) = 0;
};

void CompiledFunction::RunAsync(std::shared_ptr<const CompiledFunction> function,
                                std::vector<Tensor> arguments, const RunOptions& options,
                                PsCaller* caller, Done done) {
  auto run = std::make_shared<AsyncRun>(std::move(function), options, caller, std::move(done));
  run->Start(std::move(arguments));
}

}  // namespace coxswain::function
