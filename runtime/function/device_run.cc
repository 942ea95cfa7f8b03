// Types of outputs; then a run: its beginning and end, and what it enqueues: copies down, ops,
// copies across, copies up.
#include "runtime/function/device_run.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/graph/op.h"
#include "runtime/tensor/limits.h"

namespace coxswain::function {
namespace {

// Where tensors lie in one piece of memory.
constexpr size_t kSlabAlignment = 256;

size_t RoundUp(size_t bytes) {
  return (bytes + kSlabAlignment - 1) / kSlabAlignment * kSlabAlignment;
}

bool IsOnHost(const Tensor& tensor) { return tensor.device() == Device{}; }

// Of those on the host.
size_t SlabBytes(absl::Span<const Tensor> tensors) {
  size_t bytes = 0;
  for (const Tensor& t : tensors) bytes += IsOnHost(t) ? RoundUp(t.bytes()) : 0;
  return bytes;
}

// The tensor's place in the slab. Moves `offset` past it.
Buffer TakePlace(const Buffer& slab, const Tensor& tensor, size_t* offset) {
  const size_t at = *offset;
  *offset += RoundUp(tensor.bytes());
  return slab.Slice(at, tensor.bytes());
}

// Bytes that lie together in the end.
struct Piece {
  char* to;
  const char* from;
  size_t bytes;
};

// Memory is faster than one thread.
constexpr int64_t kCopyGrain = int64_t{1} << 20;

void CopyPieces(absl::Span<const Piece> pieces, env::ComputePool* pool) {
  int64_t total = 0;
  for (const Piece& piece : pieces) total += static_cast<int64_t>(piece.bytes);
  pool->ParallelFor(total, kCopyGrain, [&](int64_t begin, int64_t end) {
    int64_t at = 0;  // where the piece begins among all bytes
    for (const Piece& piece : pieces) {
      const int64_t size = static_cast<int64_t>(piece.bytes);
      const int64_t first = std::max(begin - at, int64_t{0}), last = std::min(end - at, size);
      if (first < last) {
        std::memcpy(piece.to + first, piece.from + first, static_cast<size_t>(last - first));
      }
      at += size;
    }
  });
}

bool HaveTypes(absl::Span<const Tensor> tensors, const std::vector<TensorType>& types) {
  return std::equal(tensors.begin(), tensors.end(), types.begin(), types.end(),
                    [](const Tensor& tensor, const TensorType& type) {
                      return tensor.dtype() == type.dtype && tensor.shape() == type.shape;
                    });
}

}  // namespace

absl::StatusOr<OutputTypes::Types> OutputTypes::For(const graph::Node& node,
                                                    const graph::OpRegistry& registry,
                                                    absl::Span<const Tensor> inputs) {
  {
    absl::MutexLock lock(&mu_);
    if (outputs_ != nullptr && HaveTypes(inputs, inputs_)) return outputs_;
  }
  std::vector<TensorType> types;
  types.reserve(inputs.size());
  for (const Tensor& t : inputs) types.push_back({t.dtype(), t.shape()});
  graph::InferenceContext context(node, types);
  RETURN_IF_ERROR(registry.Find(node.op)->infer(&context));
  for (const TensorType& type : context.outputs()) {
    if (type.shape.IsFullyKnown()) continue;
    return absl::InternalError(
        absl::StrCat("the shape ", type.shape.ToString(), " does not follow from those of inputs"));
  }
  const auto outputs =
      std::make_shared<const std::vector<TensorType>>(std::move(context.outputs()));
  absl::MutexLock lock(&mu_);
  inputs_ = std::move(types);
  outputs_ = outputs;
  ++inferred_;
  return outputs;
}

int64_t OutputTypes::inferred() const {
  absl::MutexLock lock(&mu_);
  return inferred_;
}

absl::StatusOr<std::unique_ptr<DeviceRun>> DeviceRun::Start(
    absl::Span<const std::shared_ptr<device::DeviceRuntime>> devices,
    const graph::Function* function, trace::TraceRecorder* trace, const graph::StepInfo& step) {
  std::unique_ptr<DeviceRun> run(new DeviceRun(function));
  for (const auto& device : devices) {
    ASSIGN_OR_RETURN(std::shared_ptr<device::DeviceStream> stream, device->BorrowStream());
    Lane& lane = run->lanes_.emplace_back();
    lane.device = device.get();
    lane.stream = std::move(stream);
    ASSIGN_OR_RETURN(lane.fault, lane.stream->Allocate(sizeof(CoxFault)));
    RETURN_IF_ERROR(lane.stream->FillZero(lane.fault));
    lane.trace = LaneTrace::Start(trace, step, device->device().index, lane.stream.get());
  }
  return run;
}

DeviceRun::~DeviceRun() {
  for (Lane& lane : lanes_) {
    lane.trace.reset();
    // A device that is lost reads nothing more.
    for (const int borrower : lane.borrowers) {
      lane.stream->WaitFor(lanes_[static_cast<size_t>(borrower)].stream.get()).IgnoreError();
    }
    lane.lent.clear();
    if (!lane.rows.empty()) {
      for (const auto& stream : lane.device->row_streams()) {
        // Work that was put off and could not start is an error once, and then gone.
        if (stream->WaitFor(lane.stream.get()).ok()) continue;
        stream->WaitFor(lane.stream.get()).IgnoreError();
      }
      lane.rows.clear();
    }
    lane.fault = Buffer();
    lane.faults_of_others.clear();
    // Also where nothing is held, once it waits for another device or goes on after what came up:
    // whoever ends this device waits for its notifications, and gives up where they do not come.
    // And work that a plugin had put off begins, before the constants that it reads may go.
    if (lane.held.empty() && lane.borrowers.empty() && !lane.goes_on) continue;
    lane.stream->Notify([held = std::move(lane.held)](const absl::Status&) {}).IgnoreError();
  }
  for (Lane& lane : lanes_) lane.device->ReturnStream(std::move(lane.stream));
}

absl::Status DeviceRun::CopyToDevice(int device, absl::Span<const Tensor> host,
                                     env::ComputePool* pool, absl::Span<Tensor> outputs) {
  Lane& lane = lanes_[static_cast<size_t>(device)];
  lane.goes_on = true;
  if (lane.trace != nullptr) lane.trace->EndComputing();
  RETURN_IF_ERROR(TakeRows(&lane, host, outputs));
  const size_t bytes = SlabBytes(host);
  if (std::none_of(host.begin(), host.end(), IsOnHost)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Buffer pinned, lane.device->pinned()->Allocate(bytes));
  ASSIGN_OR_RETURN(const Buffer slab, lane.stream->Allocate(bytes));
  std::vector<Piece> pieces;
  pieces.reserve(host.size());
  size_t offset = 0;
  for (size_t i = 0; i < host.size(); ++i) {
    if (!IsOnHost(host[i])) continue;
    const size_t at = offset;
    outputs[i] = Tensor(host[i].dtype(), host[i].shape(), TakePlace(slab, host[i], &offset));
    if (host[i].bytes() == 0) continue;
    pieces.push_back({static_cast<char*>(pinned.data()) + at,
                      static_cast<const char*>(host[i].raw()), host[i].bytes()});
  }
  CopyPieces(pieces, pool);
  if (lane.trace != nullptr) lane.trace->Begin();
  RETURN_IF_ERROR(lane.stream->CopyToDevice(slab, pinned));
  if (lane.trace != nullptr) lane.trace->EndCopy(trace::SpanKind::kCopyToGpu, bytes);
  lane.held.push_back(pinned);
  return absl::OkStatus();
}

absl::Status DeviceRun::TakeRows(Lane* lane, absl::Span<const Tensor> tensors,
                                 absl::Span<Tensor> outputs) {
  bool any = false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (IsOnHost(tensors[i])) continue;
    if (tensors[i].device() != lane->device->device()) {
      return absl::InternalError(absl::StrCat("rows are on GPU:", tensors[i].device().index,
                                              ", wanted on GPU:", lane->device->device().index));
    }
    outputs[i] = tensors[i];
    lane->rows.push_back(tensors[i].buffer());
    any = true;
  }
  if (!any) return absl::OkStatus();
  for (const auto& stream : lane->device->row_streams()) {
    RETURN_IF_ERROR(lane->stream->WaitFor(stream.get()));
  }
  if (lane->trace != nullptr) lane->trace->Begin();
  return absl::OkStatus();
}

absl::Status DeviceRun::RunOp(int device, const device::DeviceOp& op, const graph::Node& node,
                              OutputTypes* output_types, absl::Span<const Tensor> inputs,
                              absl::Span<Tensor> outputs, const graph::StepInfo& step) {
  Lane& lane = lanes_[static_cast<size_t>(device)];
  lane.goes_on = true;
  if (lane.trace != nullptr) lane.trace->OnOp();
  ASSIGN_OR_RETURN(const OutputTypes::Types made,
                   output_types->For(node, *function_->graph.registry(), inputs));
  const std::vector<TensorType>& types = *made;
  const bool passes_on = function_->graph.registry()->Find(node.op)->passes_on;
  for (size_t i = 0; i < outputs.size(); ++i) {
    ASSIGN_OR_RETURN(const int64_t elements, CheckedElements(types[i].shape));
    if (passes_on && elements == inputs[0].num_elements()) {
      outputs[i] = Tensor(types[i].dtype, types[i].shape, inputs[0].buffer());
      continue;
    }
    ASSIGN_OR_RETURN(Buffer buffer,
                     lane.stream->Allocate(static_cast<size_t>(elements) * SizeOf(types[i].dtype)));
    outputs[i] = Tensor(types[i].dtype, types[i].shape, std::move(buffer));
  }
  return op.Enqueue(lane.stream.get(), {inputs, outputs, lane.fault, node.id, step});
}

absl::Status DeviceRun::CopyBetweenDevices(int from, int to, absl::Span<const Tensor> inputs,
                                           absl::Span<Tensor> outputs) {
  Lane& source = lanes_[static_cast<size_t>(from)];
  Lane& target = lanes_[static_cast<size_t>(to)];
  target.goes_on = true;
  if (target.trace != nullptr) target.trace->EndComputing();
  // Before the target may go on: a trace has the copy after what it copies was computed.
  if (source.trace != nullptr) source.trace->EndComputing();
  // The source may find a fault while the target copies: what is copied is how it is now.
  std::map<int, FaultCopy> faults = source.faults_of_others;
  FaultCopy& own = faults[from];
  own.number = ++source.copies_of_fault;
  ASSIGN_OR_RETURN(own.fault, source.stream->Allocate(sizeof(CoxFault)));
  RETURN_IF_ERROR(source.stream->CopyOnDevice(own.fault, source.fault));
  RETURN_IF_ERROR(target.stream->WaitFor(source.stream.get()));
  if (target.trace != nullptr) target.trace->Begin();
  source.borrowers.insert(to);
  size_t bytes = 0;
  const auto copy = [&](const Buffer& original) -> absl::StatusOr<Buffer> {
    source.lent.push_back(original);
    bytes += original.size();
    ASSIGN_OR_RETURN(Buffer made, target.stream->Allocate(original.size()));
    if (original.size() > 0) RETURN_IF_ERROR(target.stream->CopyOnDevice(made, original));
    return made;
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSIGN_OR_RETURN(Buffer made, copy(inputs[i].buffer().Slice(0, inputs[i].bytes())));
    outputs[i] = Tensor(inputs[i].dtype(), inputs[i].shape(), std::move(made));
  }
  for (const auto& [lane, fault] : faults) {
    if (lane == to) continue;
    // By way of a third device an older one may come after a newer one.
    FaultCopy& known = target.faults_of_others[lane];
    if (known.number >= fault.number) continue;
    ASSIGN_OR_RETURN(known.fault, copy(fault.fault));
    known.number = fault.number;
  }
  if (target.trace != nullptr) target.trace->EndCopy(trace::SpanKind::kCopyBetweenGpus, bytes);
  return absl::OkStatus();
}

absl::Status DeviceRun::CopyToHost(int device, absl::Span<const Tensor> tensors, Done done) {
  Lane& lane = lanes_[static_cast<size_t>(device)];
  // The tensors, then the faults, its own last.
  std::vector<Buffer> originals;
  std::vector<const device::DeviceRuntime*> fault_devices;
  for (const Tensor& t : tensors) originals.push_back(t.buffer().Slice(0, t.bytes()));
  for (const auto& [other, fault] : lane.faults_of_others) {
    originals.push_back(fault.fault);
    fault_devices.push_back(lanes_[static_cast<size_t>(other)].device);
  }
  originals.push_back(lane.fault);
  fault_devices.push_back(lane.device);
  size_t bytes = 0;
  for (const Buffer& original : originals) bytes += RoundUp(original.size());
  ASSIGN_OR_RETURN(const Buffer slab, lane.stream->Allocate(bytes));
  ASSIGN_OR_RETURN(const Buffer pinned, lane.device->pinned()->Allocate(bytes));
  std::vector<Buffer> places;
  size_t offset = 0;
  for (const Buffer& original : originals) {
    const Buffer place = slab.Slice(offset, original.size());
    if (place.size() > 0) RETURN_IF_ERROR(lane.stream->CopyOnDevice(place, original));
    places.push_back(pinned.Slice(offset, original.size()));
    offset += RoundUp(original.size());
  }
  std::vector<Tensor> made;
  for (size_t i = 0; i < tensors.size(); ++i) {
    made.emplace_back(tensors[i].dtype(), tensors[i].shape(), places[i]);
  }
  places.erase(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(tensors.size()));
  lane.held.push_back(pinned);  // the copy writes there, whatever becomes of the rest
  LaneTrace::Copied copied;
  if (lane.trace != nullptr) {
    lane.trace->Begin();
    copied = lane.trace->EndCopyWith(trace::SpanKind::kCopyFromGpu, bytes);
  }
  RETURN_IF_ERROR(lane.stream->CopyToHost(pinned, slab));
  lane.goes_on = false;
  // What was copied down before is done when this is.
  return lane.stream->Notify([function = function_, made = std::move(made),
                              faults = std::move(places), fault_devices = std::move(fault_devices),
                              held = std::exchange(lane.held, {}), copied = std::move(copied),
                              done = std::move(done)](absl::Status status) mutable {
    if (status.ok() && copied) copied();
    for (size_t i = 0; status.ok() && i < faults.size(); ++i) {
      status = FaultStatus(*fault_devices[i], *function, faults[i]);
    }
    if (status.ok()) {
      done(std::move(made));
    } else {
      done(std::move(status));
    }
  });
}

void DeviceRun::OnIdle() {
  for (Lane& lane : lanes_) {
    if (lane.trace != nullptr) lane.trace->EndComputing();
  }
}

absl::Status DeviceRun::FaultStatus(const device::DeviceRuntime& device,
                                    const graph::Function& function, const Buffer& fault) {
  CoxFault found;
  std::memcpy(&found, fault.data(), sizeof(found));
  if (found.kind == COX_FAULT_NONE) return absl::OkStatus();
  absl::Status status = device.FaultStatus(found);
  if (found.node < 0 || found.node >= function.graph.size()) return status;
  const graph::Node& node = function.graph.node(found.node);
  const auto not_finite = function.graph.registry()->Find(node.op)->not_finite;
  if (found.kind == COX_FAULT_NOT_FINITE && not_finite != nullptr) {
    const double number = found.bound == 0 ? std::numeric_limits<double>::quiet_NaN()
                                           : static_cast<double>(found.bound) *
                                                 std::numeric_limits<double>::infinity();
    status = not_finite(node, found.value, number);
  }
  return Annotate(status, absl::StrCat("function '", function.name, "', node '", node.name, "' (",
                                       node.op, ")"));
}

}  // namespace coxswain::function
