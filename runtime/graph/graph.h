// A dataflow graph: nodes are uses of ops, edges carry tensors. Nodes are only ever appended and
// refer to earlier nodes, so the order of ids is a topological order.
//
// Thread model: built by one thread; read-only afterwards.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coxswain/tensor.h"
#include "runtime/graph/attr.h"
#include "runtime/tensor/device.h"

namespace coxswain::graph {

class OpRegistry;

struct Node {
  int id = -1;
  std::string name;  // unique in the graph
  std::string op;
  std::vector<Output> inputs;
  std::vector<int> control_inputs;  // run after these, without a tensor
  Attrs attrs;
  DeviceSpec device;                // as asked for; placement fills in what is open
  std::vector<TensorType> outputs;  // inferred
};

class Graph {
 public:
  explicit Graph(const OpRegistry* registry) : registry_(registry) {}

  // Appends a node and infers the types of its outputs. An empty name becomes "<op>_<id>".
  // Errors: NotFound for an unknown op; InvalidArgument for wrong inputs, attributes or shapes; the
  // message names the node, what was wanted and what was found.
  absl::StatusOr<int> Add(Node node);

  const OpRegistry* registry() const { return registry_; }
  int size() const { return static_cast<int>(nodes_.size()); }
  const Node& node(int id) const { return nodes_[id]; }
  Node* mutable_node(int id) { return &nodes_[id]; }
  absl::Span<const Node> nodes() const { return nodes_; }
  const TensorType& type(Output o) const { return nodes_[o.node].outputs[o.index]; }

 private:
  const OpRegistry* registry_;
  std::vector<Node> nodes_;
};

// A function: a graph with arguments and results. Argument nodes have the op "Arg".
struct Function {
  struct Argument {
    std::string name;
    TensorType type;
    int node = -1;
  };
  struct Result {
    std::string name;
    Output output;
  };
  std::string name;
  Graph graph;
  std::vector<Argument> arguments;
  std::vector<Result> results;
  std::vector<int> targets;  // nodes run for their effect (updates)
  DeviceChoice device = DeviceChoice::kAuto;

  Function(std::string function_name, const OpRegistry* registry)
      : name(std::move(function_name)), graph(registry) {}
};

// Removes the nodes that neither a result nor a target needs; arguments stay. Names stay, ids
// change.
Function Prune(const Function& function);

}  // namespace coxswain::graph
