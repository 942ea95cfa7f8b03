// Builds a function node by node. The first error sticks: later calls do nothing and return invalid
// outputs, and `Finish` returns it, so that code that builds reads without error handling. An
// output of another builder is an InvalidArgument error wherever it is given.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "runtime/graph/graph.h"
#include "runtime/graph/op.h"

namespace coxswain::graph {

class GraphBuilder {
  // What DeviceScope asks for.
  struct Pin {
    DeviceSpec device;
    bool if_possible = false;
  };

 public:
  GraphBuilder(std::string name, const OpRegistry* registry)
      : function_(std::move(name), registry), number_(NewNumber()) {}

  // Adds a node. A stateless node equal to an earlier one (op, inputs, attributes, device) is that
  // one. Returns its first output.
  Output Op(const std::string& op, std::vector<Output> inputs, Attrs attrs = {},
            std::string name = "");
  // The same, returning all outputs (or `count` invalid ones after an error).
  std::vector<Output> OpN(const std::string& op, std::vector<Output> inputs, Attrs attrs, int count,
                          std::string name = "");
  // Adds a node that is run for its effect. Returns it; -1 after an error.
  int Target(const std::string& op, std::vector<Output> inputs, Attrs attrs);

  // The node of this output is run also where nothing needs it.
  void AddTarget(Output output) {
    if (output.valid() && IsOwn(output, "a target")) function_.targets.push_back(output.node);
  }

  Output Argument(const std::string& name, DType dtype, Shape shape);
  // The one declared by this name; an invalid output where there is none.
  Output FindArgument(const std::string& name) const;
  Output Constant(Tensor value, std::string name = "");
  Output Scalar(float value) { return Constant(Tensor::Scalar<float>(value)); }
  void Result(const std::string& name, Output output);

  // All nodes added while the scope lives get this device constraint; "/device:GPU:N" is for all
  // but those of parameter servers, and with `if_possible` for all but those that only run on the
  // host or make integers.
  class DeviceScope {
   public:
    DeviceScope(GraphBuilder* builder, const std::string& device, bool if_possible = false);
    ~DeviceScope() { builder_->pin_ = saved_; }
    DeviceScope(const DeviceScope&) = delete;
    DeviceScope& operator=(const DeviceScope&) = delete;

   private:
    GraphBuilder* builder_;
    Pin saved_;
  };

  // All nodes added while the scope lives, but for constants and arguments, run after these nodes.
  class ControlScope {
   public:
    ControlScope(GraphBuilder* builder, const std::vector<Output>& after);
    ~ControlScope() { builder_->after_ = std::move(saved_); }
    ControlScope(const ControlScope&) = delete;
    ControlScope& operator=(const ControlScope&) = delete;

   private:
    GraphBuilder* builder_;
    std::vector<int> saved_;
  };
  // Whether one does.
  bool in_control_scope() const { return !after_.empty(); }

  // d(sum of ys)/d(xs): adds the backward graph. An x that no y depends on gets an invalid output.
  // Errors (sticky): InvalidArgument when a path leads through an op without a gradient.
  std::vector<Output> Gradients(const std::vector<Output>& ys, const std::vector<Output>& xs);

  // Of no type where the output is invalid or another builder's.
  const TensorType& type(Output output) const;
  // What a node of this builder is to others: in a ControlScope, say.
  Output Of(int node, int index = 0) const { return {node, index, number_}; }
  const Graph& graph() const { return function_.graph; }
  const Function& function() const { return function_; }
  const absl::Status& status() const { return status_; }
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  bool failed() const { return !status_.ok(); }

  // The finished function, pruned. The builder is empty afterwards.
  absl::StatusOr<Function> Finish();

 private:
  static uint32_t NewNumber();
  bool Made(Output output) const { return output.builder == 0 || output.builder == number_; }
  // Whether it is; else the error is recorded, in which `what` names the use.
  bool IsOwn(Output output, const std::string& what);
  int AddNode(const std::string& op, std::vector<Output> inputs, Attrs attrs, std::string name);
  // The constraint of a new node, as far as its op says.
  DeviceSpec DeviceFor(const OpSchema* schema) const;
  // Whether the node is without that constraint after all: it makes ids, or other integers.
  bool StaysWithIds(const Node& node, const DeviceSpec& device) const;
  // That of nodes added for the gradient of a node with this one.
  Pin GradientPin(const DeviceSpec& forward) const;

  Function function_;
  uint32_t number_;  // in the outputs that it returns; the function's own have none
  Pin pin_;
  std::vector<int> after_;  // ascending, each once
  absl::flat_hash_map<size_t, std::vector<int>> by_hash_;
  absl::Status status_;
};

}  // namespace coxswain::graph
