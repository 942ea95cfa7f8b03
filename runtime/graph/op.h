// Ops: what a node may be. An op has a schema (with shape inference), a gradient and kernels, all
// registered from one file in kernels/ through its Register function, which is listed in
// kernels/register_list.h.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "runtime/graph/graph.h"

namespace coxswain::graph {

class GraphBuilder;
class Kernel;

// What shape inference sees of a node, and where it puts the types of the outputs.
class InferenceContext {
 public:
  InferenceContext(const Node& node, std::vector<TensorType> inputs)
      : node_(node), inputs_(std::move(inputs)) {}

  const Attrs& attrs() const { return node_.attrs; }
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  DType dtype(int i) const { return inputs_[i].dtype; }
  const Shape& shape(int i) const { return inputs_[i].shape; }
  const TensorType& input(int i) const { return inputs_[i]; }

  void AddOutput(DType dtype, Shape shape) { outputs_.push_back({dtype, std::move(shape)}); }
  std::vector<TensorType>& outputs() { return outputs_; }

  // InvalidArgument unless input i has the rank.
  absl::Status WantRank(int i, int rank) const;
  // InvalidArgument unless input i has one of the dtypes.
  absl::Status WantDType(int i, std::initializer_list<DType> dtypes) const;
  // InvalidArgument unless inputs i and j have the same dtype.
  absl::Status WantSameDType(int i, int j) const;
  absl::Status Error(const std::string& message) const {
    return absl::InvalidArgumentError(message);
  }

 private:
  const Node& node_;
  std::vector<TensorType> inputs_;
  std::vector<TensorType> outputs_;
};

// What a gradient function sees. It adds the nodes that compute d(loss)/d(input) from
// d(loss)/d(output), and names them with SetInputGradient; inputs left unset get no gradient.
class GradientContext {
 public:
  GradientContext(GraphBuilder* builder, int node, std::vector<Output> output_gradients);

  const Attrs& attrs() const;
  int num_inputs() const;
  Output input(int i) const;
  Output output(int i) const;
  const TensorType& input_type(int i) const;
  // Invalid when nothing flows back through output i.
  Output output_gradient(int i) const { return output_gradients_[i]; }
  void SetInputGradient(int i, Output gradient) { input_gradients_[i] = gradient; }
  Output Op(const std::string& op, std::vector<Output> inputs, Attrs attrs = {});
  // Output `index` of an op with several.
  Output Op(const std::string& op, std::vector<Output> inputs, Attrs attrs, int index);

  const std::vector<Output>& input_gradients() const { return input_gradients_; }

 private:
  GraphBuilder* builder_;
  int node_;
  std::vector<Output> output_gradients_;
  std::vector<Output> input_gradients_;
};

struct OpSchema {
  std::string name;
  int min_inputs = 0;
  int max_inputs = 0;  // -1: any number
  // Has an effect or depends on more than its inputs: never merged with an equal node.
  bool stateful = false;
  // Runs where its shard lives, on a PS (attribute "shard").
  bool on_parameter_server = false;
  // A worker runs it on the CPU, whatever it has beside: its outputs' shapes depend on values, or
  // its errors name them.
  bool on_host = false;
  // But on a device where its result goes to rows in a GPU's memory alone, see kOnGpuAttr.
  bool on_device_for_gpu_rows = false;
  // Its only output is its first input's elements in their order, so that no byte need move.
  bool passes_on = false;
  // The op has no derivative by nature (integer results, sources, effects): a gradient that reaches
  // it is dropped. Otherwise a missing gradient is an error.
  bool not_differentiable = false;
  absl::Status (*infer)(InferenceContext* context) = nullptr;
  // What it means that a device found a number that is not finite: `number` is one like it, `id`
  // that of its row where the op has such an input. Null: nothing but that.
  absl::Status (*not_finite)(const Node& node, int64_t id, double number) = nullptr;
  absl::Status (*gradient)(GradientContext* context) = nullptr;
  // Names of all attributes that a node of it may have.
  std::vector<std::string> attrs = {};
};

using KernelFactory = std::function<absl::StatusOr<std::unique_ptr<Kernel>>(const Node& node)>;

class OpRegistry {
 public:
  // A second registration of a name is a bug of this program and is checked.
  void Register(OpSchema schema);
  // The CPU's kernel. What other devices run, they know themselves (runtime/device).
  void RegisterKernel(const std::string& op, KernelFactory factory);

  const OpSchema* Find(const std::string& op) const;  // null when there is none
  // Errors: NotFound when the op has no kernel; else what the factory says.
  absl::StatusOr<std::unique_ptr<Kernel>> CreateKernel(const Node& node) const;
  bool HasKernel(const std::string& op) const { return kernels_.contains(op); }
  std::vector<std::string> Names() const;  // sorted

 private:
  absl::flat_hash_map<std::string, OpSchema> schemas_;
  absl::flat_hash_map<std::string, KernelFactory> kernels_;
};

}  // namespace coxswain::graph
