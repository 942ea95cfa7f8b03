#include "runtime/graph/op.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/logging.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/kernel.h"

namespace coxswain::graph {

absl::Status InferenceContext::WantRank(int i, int rank) const {
  if (inputs_[i].shape.rank() == rank) return absl::OkStatus();
  return Error(
      absl::StrCat("input ", i, ": wanted rank ", rank, ", found ", inputs_[i].ToString()));
}

absl::Status InferenceContext::WantDType(int i, std::initializer_list<DType> dtypes) const {
  if (std::find(dtypes.begin(), dtypes.end(), inputs_[i].dtype) != dtypes.end()) {
    return absl::OkStatus();
  }
  return Error(absl::StrCat(
      "input ", i, ": wanted ",
      absl::StrJoin(dtypes, " or ",
                    [](std::string* out, DType d) { absl::StrAppend(out, DTypeName(d)); }),
      ", found ", inputs_[i].ToString()));
}

absl::Status InferenceContext::WantSameDType(int i, int j) const {
  if (inputs_[i].dtype == inputs_[j].dtype) return absl::OkStatus();
  return Error(absl::StrCat("inputs ", i, " and ", j, ": wanted the same dtype, found ",
                            inputs_[i].ToString(), " and ", inputs_[j].ToString()));
}

GradientContext::GradientContext(GraphBuilder* builder, int node,
                                 std::vector<Output> output_gradients)
    : builder_(builder),
      node_(node),
      output_gradients_(std::move(output_gradients)),
      input_gradients_(builder->graph().node(node).inputs.size()) {}

const Attrs& GradientContext::attrs() const { return builder_->graph().node(node_).attrs; }

int GradientContext::num_inputs() const {
  return static_cast<int>(builder_->graph().node(node_).inputs.size());
}

Output GradientContext::input(int i) const { return builder_->graph().node(node_).inputs[i]; }

Output GradientContext::output(int i) const { return {node_, i}; }

const TensorType& GradientContext::input_type(int i) const { return builder_->type(input(i)); }

Output GradientContext::Op(const std::string& op, std::vector<Output> inputs, Attrs attrs) {
  return builder_->Op(op, std::move(inputs), std::move(attrs));
}

Output GradientContext::Op(const std::string& op, std::vector<Output> inputs, Attrs attrs,
                           int index) {
  Output first = builder_->Op(op, std::move(inputs), std::move(attrs));
  if (first.valid()) first.index = index;
  return first;
}

void OpRegistry::Register(OpSchema schema) {
  COX_CHECK(schema.infer != nullptr, schema.name, " has no inference");
  const std::string name = schema.name;
  COX_CHECK(schemas_.emplace(name, std::move(schema)).second, name, " is registered twice");
}

void OpRegistry::RegisterKernel(const std::string& op, KernelFactory factory) {
  COX_CHECK(kernels_.emplace(op, std::move(factory)).second, op, " has two kernels");
}

const OpSchema* OpRegistry::Find(const std::string& op) const {
  const auto it = schemas_.find(op);
  return it == schemas_.end() ? nullptr : &it->second;
}

absl::StatusOr<std::unique_ptr<Kernel>> OpRegistry::CreateKernel(const Node& node) const {
  const auto it = kernels_.find(node.op);
  if (it == kernels_.end()) {
    return absl::NotFoundError(
        absl::StrCat("node '", node.name, "': op ", node.op, " has no kernel"));
  }
  return it->second(node);
}

std::vector<std::string> OpRegistry::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, schema] : schemas_) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

Tensor KernelContext::ForwardOrAllocate(int i, DType dtype, const Shape& shape) {
  Tensor& in = inputs_[i];
  if (in.has_value() && in.dtype() == dtype && in.num_elements() == shape.num_elements() &&
      in.Unique()) {
    return in.Reshaped(shape);
  }
  return Tensor(dtype, shape);
}

Tensor KernelContext::ForwardAnyOrAllocate(DType dtype, const Shape& shape) {
  for (const Tensor& in : inputs_) {
    if (in.has_value() && in.dtype() == dtype && in.num_elements() == shape.num_elements() &&
        in.Unique()) {
      return in.Reshaped(shape);
    }
  }
  return Tensor(dtype, shape);
}

}  // namespace coxswain::graph
