#include "runtime/function/device_run.h"

#include <algorithm>
#include <cstring>
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

size_t SlabBytes(absl::Span<const Tensor> tensors) {
  size_t bytes = 0;
  for (const Tensor& t : tensors) bytes += RoundUp(t.bytes());
  return bytes;
}

// The tensor's place in the slab. Moves `offset` past it.
Buffer TakePlace(const Buffer& slab, const Tensor& tensor, size_t* offset) {
  const size_t at = *offset;
  *offset += RoundUp(tensor.bytes());
  return slab.Slice(at, tensor.bytes());
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

absl::StatusOr<std::unique_ptr<DeviceRun>> DeviceRun::Start(device::DeviceRuntime* device,
                                                            const graph::Function* function) {
  ASSIGN_OR_RETURN(std::shared_ptr<device::DeviceStream> stream, device->BorrowStream());
  std::unique_ptr<DeviceRun> run(new DeviceRun(device, function, std::move(stream)));
  ASSIGN_OR_RETURN(run->fault_, run->stream_->Allocate(sizeof(CoxFault)));
  RETURN_IF_ERROR(run->stream_->FillZero(run->fault_));
  return run;
}

DeviceRun::~DeviceRun() {
  fault_ = Buffer();
  // A device that is lost reads nothing more.
  if (!held_.empty()) {
    stream_->Notify([held = std::move(held_)](const absl::Status&) {}).IgnoreError();
  }
  device_->ReturnStream(std::move(stream_));
}

absl::Status DeviceRun::CopyToDevice(absl::Span<const Tensor> host, absl::Span<Tensor> outputs) {
  const size_t bytes = SlabBytes(host);
  ASSIGN_OR_RETURN(const Buffer pinned, device_->pinned()->Allocate(bytes));
  ASSIGN_OR_RETURN(const Buffer slab, stream_->Allocate(bytes));
  size_t offset = 0;
  for (size_t i = 0; i < host.size(); ++i) {
    const size_t at = offset;
    outputs[i] = Tensor(host[i].dtype(), host[i].shape(), TakePlace(slab, host[i], &offset));
    if (host[i].bytes() == 0) continue;
    std::memcpy(static_cast<char*>(pinned.data()) + at, host[i].raw(), host[i].bytes());
  }
  RETURN_IF_ERROR(stream_->CopyToDevice(slab, pinned));
  held_.push_back(pinned);
  return absl::OkStatus();
}

absl::Status DeviceRun::RunOp(const device::DeviceOp& op, const graph::Node& node,
                              OutputTypes* output_types, absl::Span<const Tensor> inputs,
                              absl::Span<Tensor> outputs, const graph::StepInfo& step) {
  ASSIGN_OR_RETURN(const OutputTypes::Types made,
                   output_types->For(node, *function_->graph.registry(), inputs));
  const std::vector<TensorType>& types = *made;
  for (size_t i = 0; i < outputs.size(); ++i) {
    ASSIGN_OR_RETURN(const int64_t elements, CheckedElements(types[i].shape));
    ASSIGN_OR_RETURN(Buffer buffer,
                     stream_->Allocate(static_cast<size_t>(elements) * SizeOf(types[i].dtype)));
    outputs[i] = Tensor(types[i].dtype, types[i].shape, std::move(buffer));
  }
  return op.Enqueue(stream_.get(), {inputs, outputs, fault_, node.id, step});
}

absl::Status DeviceRun::CopyToHost(absl::Span<const Tensor> tensors, Done done) {
  const size_t fault_at = SlabBytes(tensors);
  const size_t bytes = fault_at + sizeof(CoxFault);
  ASSIGN_OR_RETURN(const Buffer slab, stream_->Allocate(bytes));
  ASSIGN_OR_RETURN(const Buffer pinned, device_->pinned()->Allocate(bytes));
  std::vector<Tensor> made;
  size_t offset = 0;
  for (const Tensor& t : tensors) {
    const Buffer place = slab.Slice(offset, t.bytes());
    if (t.bytes() > 0) RETURN_IF_ERROR(stream_->CopyOnDevice(place, t.buffer()));
    made.emplace_back(t.dtype(), t.shape(), TakePlace(pinned, t, &offset));
  }
  RETURN_IF_ERROR(stream_->CopyOnDevice(slab.Slice(fault_at, sizeof(CoxFault)), fault_));
  held_.push_back(pinned);  // the copy writes there, whatever becomes of the rest
  RETURN_IF_ERROR(stream_->CopyToHost(pinned, slab));
  // What was copied down before is done when this is.
  return stream_->Notify([device = device_, function = function_, made = std::move(made),
                          fault = pinned.Slice(fault_at, sizeof(CoxFault)),
                          held = std::exchange(held_, {}),
                          done = std::move(done)](absl::Status status) mutable {
    CoxFault found;
    std::memcpy(&found, fault.data(), sizeof(found));
    if (status.ok() && found.kind != COX_FAULT_NONE) {
      status = device->FaultStatus(found);
      if (found.node >= 0 && found.node < function->graph.size()) {
        const graph::Node& node = function->graph.node(found.node);
        status = Annotate(status, absl::StrCat("function '", function->name, "', node '", node.name,
                                               "' (", node.op, ")"));
      }
    }
    if (status.ok()) {
      done(std::move(made));
    } else {
      done(std::move(status));
    }
  });
}

}  // namespace coxswain::function
