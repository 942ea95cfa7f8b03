#include "tests/testing/interpreter.h"

#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/graph/op.h"
#include "tests/testing/on_device.h"

namespace coxswain::testing {
namespace {

std::string Who(const graph::Node& node) {
  return absl::StrCat("node '", node.name, "' (", node.op, ")");
}

// How often each output is read: by nodes, and by the results.
std::vector<std::vector<int>> CountUses(const graph::Function& function) {
  std::vector<std::vector<int>> uses;
  for (const graph::Node& node : function.graph.nodes()) uses.emplace_back(node.outputs.size(), 0);
  for (const graph::Node& node : function.graph.nodes()) {
    for (const Output& in : node.inputs) ++uses[in.node][in.index];
  }
  for (const auto& result : function.results) ++uses[result.output.node][result.output.index];
  return uses;
}

absl::Status CheckOutputs(const graph::Node& node, const std::vector<Tensor>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const TensorType& wanted = node.outputs[i];
    if (!outputs[i].has_value()) {
      return absl::InternalError(absl::StrCat(Who(node), ": output ", i, " was not set"));
    }
    if (outputs[i].dtype() != wanted.dtype || !wanted.shape.Accepts(outputs[i].shape())) {
      return absl::InternalError(absl::StrCat(
          Who(node), ": output ", i, ": inference promised ", wanted.ToString(),
          ", the kernel made ", TensorType{outputs[i].dtype(), outputs[i].shape()}.ToString()));
    }
  }
  return absl::OkStatus();
}

class Run {
 public:
  Run(const graph::Function& function, const InterpretOptions& options)
      : function_(function), options_(options), uses_(CountUses(function)) {
    if (options_.pool == nullptr) {
      own_pool_ = env::NewInlinePool();
      options_.pool = own_pool_.get();
    }
    for (const graph::Node& node : function.graph.nodes())
      values_.emplace_back(node.outputs.size());
  }

  absl::Status SetArguments(std::vector<Tensor> arguments) {
    if (arguments.size() != function_.arguments.size()) {
      return absl::InvalidArgumentError(absl::StrCat("wanted ", function_.arguments.size(),
                                                     " arguments, found ", arguments.size()));
    }
    for (size_t i = 0; i < arguments.size(); ++i) {
      const graph::Function::Argument& argument = function_.arguments[i];
      if (argument.type.dtype != arguments[i].dtype() ||
          !argument.type.shape.Accepts(arguments[i].shape())) {
        return absl::InvalidArgumentError(absl::StrCat("argument '", argument.name, "': wanted ",
                                                       argument.type.ToString(), ", found ",
                                                       arguments[i].ToString()));
      }
      values_[argument.node][0] = std::move(arguments[i]);
    }
    return absl::OkStatus();
  }

  absl::Status RunNode(const graph::Node& node) {
    ASSIGN_OR_RETURN(std::unique_ptr<graph::Kernel> kernel,
                     function_.graph.registry()->CreateKernel(node));
    std::vector<Tensor> inputs;
    for (const Output& in : node.inputs) inputs.push_back(Take(in));
    std::vector<Tensor> outputs(node.outputs.size());
    graph::KernelContext context(absl::MakeSpan(inputs), absl::MakeSpan(outputs), options_.step,
                                 options_.pool, options_.variables);
    if (absl::Status s = kernel->Compute(&context); !s.ok()) return Annotate(s, Who(node));
    RETURN_IF_ERROR(CheckOutputs(node, outputs));
    values_[node.id] = std::move(outputs);
    return absl::OkStatus();
  }

  // The value, which is gone after its last use.
  Tensor Take(const Output& output) {
    Tensor& value = values_[output.node][output.index];
    if (--uses_[output.node][output.index] == 0) return std::move(value);
    return value;
  }

 private:
  const graph::Function& function_;
  InterpretOptions options_;
  std::unique_ptr<env::ComputePool> own_pool_;
  std::vector<std::vector<int>> uses_;
  std::vector<std::vector<Tensor>> values_;
};

}  // namespace

absl::StatusOr<std::vector<Tensor>> Interpret(const graph::Function& function,
                                              std::vector<Tensor> arguments,
                                              const InterpretOptions& options) {
  if (options.gpu != nullptr && options.variables == nullptr) {
    return options.gpu->Run(function, std::move(arguments), options.step);
  }
  Run run(function, options);
  RETURN_IF_ERROR(run.SetArguments(std::move(arguments)));
  std::vector<bool> is_argument(function.graph.size(), false);
  for (const auto& argument : function.arguments) is_argument[argument.node] = true;
  for (const graph::Node& node : function.graph.nodes()) {
    if (!is_argument[node.id]) RETURN_IF_ERROR(run.RunNode(node));
  }
  std::vector<Tensor> results;
  for (const auto& result : function.results) results.push_back(run.Take(result.output));
  return results;
}

Tensor DeepCopy(const Tensor& tensor) {
  Tensor copy(tensor.dtype(), tensor.shape());
  if (tensor.bytes() > 0) std::memcpy(copy.mutable_raw(), tensor.raw(), tensor.bytes());
  return copy;
}

}  // namespace coxswain::testing
