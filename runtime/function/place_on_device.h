// Placement within a worker: which nodes of its component run on a device beside the CPU, and the
// copies between the two as nodes of their own.
//
// On the device: what has a floating result, or comes from what is there, and that the device has
// code for. On the host: arguments, calls of PS and what their first frames wait for (ids), ops
// that need it (OpSchema::on_host), what is pinned to "/device:CPU:0".
//
// Copies are few, for each costs more than its bytes do: all that one call of a PS returns goes
// down in one copy, and what host nodes made of the arguments alone goes with the first of them;
// all that one call needs comes up in one copy, and results of the function with the last of them.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "runtime/graph/graph.h"

namespace coxswain::function {

// Any number of tensors of any kind in, the same out, elsewhere. Only PlaceOnDevice adds them.
constexpr char kCopyToDeviceOp[] = "CopyToDevice";
constexpr char kCopyToHostOp[] = "CopyToHost";
void RegisterCopies(graph::OpRegistry* registry);

// The function with copies; each node's `device` says where it runs. A constant that is used on
// both sides is there twice.
// Errors: InvalidArgument naming the node: pinned to a device that a step does not have, or whose
// op `has_code` does not know; a function that has copies already.
absl::StatusOr<graph::Function> PlaceOnDevice(const graph::Function& function,
                                              absl::FunctionRef<bool(const graph::Node&)> has_code);

// Whether PlaceOnDevice put the node on the device.
bool IsOnDevice(const graph::Node& node);

}  // namespace coxswain::function
