// Placement and partition: one function becomes a component for "this worker" and, for every PS, a
// list of segments.
//
// A segment is what a PS does between one frame from the worker and its reply: it needs nothing but
// the frame and the PS's shards, so a PS keeps nothing between segments of a step. All tensors that
// a worker has for one PS at the same point are inputs of one segment, hence one frame. The
// worker's component meets segment s of PS p in a node "PsCall": its inputs are sent, its outputs
// received. A value that goes from one PS to another, or from one segment to a later one, passes
// the worker.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/base/ids.h"
#include "runtime/graph/graph.h"

namespace coxswain::function {

constexpr int kOnWorker = -1;
constexpr char kPsCallOp[] = "PsCall";
// Of ops that look up or update rows (their output 0, their input 1): true where the PS keeps the
// rows in the memory of a GPU. What such an op gives or takes need not pass the host where worker
// and PS are one process.
constexpr char kOnGpuAttr[] = "on_gpu";

// Registers PsCall (attributes ps, segment, types). It has no kernel: the executor hands it to the
// transport.
void RegisterPsCall(graph::OpRegistry* registry);

// A frame's round trip, as the worker's component sees it.
struct PsCallTarget {
  int ps = 0;
  int segment = 0;
  // The GPU in whose memory rows may come; -1: in that of the host. Set by a run.
  int rows_on = -1;
};
PsCallTarget GetPsCallTarget(const graph::Node& node);
// Which of its inputs, and of its outputs, may be in the memory of a GPU.
std::vector<int64_t> GpuInputs(const graph::Node& node);
std::vector<int64_t> GpuOutputs(const graph::Node& node);

// Where each node runs: kOnWorker or the index of a PS. Ops with a shard go to the shard's PS;
// others to the constrained device, or to the worker. Errors: InvalidArgument for a constraint that
// cannot be met, naming node and device.
absl::StatusOr<std::vector<int>> Place(const graph::Function& function, int num_ps,
                                       const std::function<int(ShardId)>& ps_of_shard);

struct Partition {
  graph::Function worker;
  // segments[p][s]: arguments are what the frame brings, results what the reply carries.
  std::vector<std::vector<graph::Function>> segments;

  explicit Partition(graph::Function w) : worker(std::move(w)) {}
};

// Updates are numbered first (number_updates.h), so that their keys do not depend on placement.
// Errors: as Place; InvalidArgument for a function that has a PsCall already.
absl::StatusOr<Partition> PartitionFunction(const graph::Function& function, int num_ps,
                                            const std::function<int(ShardId)>& ps_of_shard);

// The partition as text, or as a Graphviz digraph.
std::string PartitionToText(const Partition& partition);
std::string PartitionToDot(const Partition& partition);

}  // namespace coxswain::function
