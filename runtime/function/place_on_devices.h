// Placement within a worker: which nodes of its component run on which of its devices beside the
// CPU, and the copies between them and the host as nodes of their own.
//
// On a device: what has a floating result, or comes from what is there, and that the device has
// code for. It is the one that most of the node's inputs are on (of as many: the first input's),
// and GPU:0 where none is on any. On the host: arguments, calls of PS and what their first frames
// wait for (ids), ops that need it (OpSchema::on_host; but for on_device_for_gpu_rows), what is
// pinned to "/device:CPU:0". What is pinned to "/device:GPU:1" runs on the second device of a step.
//
// Copies are few, for each costs more than its bytes do: all that one call of a PS returns goes
// down in one copy to each device, and what host nodes made of the arguments alone goes with the
// first of them; all that one call needs of a device comes up in one copy, and results of the
// function with the last of them. What a node of one device gives to another goes across in one.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "runtime/graph/graph.h"

namespace coxswain::function {

// Any number of tensors of any kind in, the same out, elsewhere. Only PlaceOnDevices adds them.
// They name a device: CopyToHost the one that it copies from, the others the one that they copy to.
// All inputs of a CopyBetweenDevices are of one node.
constexpr char kCopyToDeviceOp[] = "CopyToDevice";
constexpr char kCopyToHostOp[] = "CopyToHost";
constexpr char kCopyBetweenDevicesOp[] = "CopyBetweenDevices";
bool IsCopy(const graph::Node& node);
void RegisterCopies(graph::OpRegistry* registry);

// The function with copies; each node's `device` says where it runs. A constant is there once for
// the host and each device that uses it. `devices`: how many a step has, at least 1. Errors:
// InvalidArgument naming the node: pinned to a device that a step does not have, or whose op
// `has_code` does not know; a function that has copies already.
absl::StatusOr<graph::Function> PlaceOnDevices(
    const graph::Function& function, int devices,
    absl::FunctionRef<bool(const graph::Node&)> has_code);

// Whether PlaceOnDevices put the node on a device. Not of copies.
bool IsOnDevice(const graph::Node& node);
// The device of such a node, or of a copy: its number among those of a step.
int DeviceOf(const graph::Node& node);

}  // namespace coxswain::function
