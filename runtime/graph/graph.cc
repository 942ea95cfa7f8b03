#include "runtime/graph/graph.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/graph/op.h"
#include "runtime/tensor/limits.h"

namespace coxswain {

std::string TensorType::ToString() const {
  return absl::StrCat(DTypeName(dtype), shape.ToString());
}

}  // namespace coxswain

namespace coxswain::graph {

absl::StatusOr<int> Graph::Add(Node node) {
  node.id = size();
  if (node.name.empty()) node.name = absl::StrCat(node.op, "_", node.id);
  const std::string who = absl::StrCat("node '", node.name, "' (", node.op, ")");
  const OpSchema* schema = registry_->Find(node.op);
  if (schema == nullptr) {
    return absl::NotFoundError(absl::StrCat(who, ": there is no such op; there are ",
                                            absl::StrJoin(registry_->Names(), ", ")));
  }
  const int n = static_cast<int>(node.inputs.size());
  if (n < schema->min_inputs || (schema->max_inputs >= 0 && n > schema->max_inputs)) {
    return absl::InvalidArgumentError(absl::StrCat(
        who, ": wanted ", schema->min_inputs,
        schema->max_inputs < 0
            ? " or more"
            : (schema->max_inputs == schema->min_inputs ? std::string()
                                                        : absl::StrCat(" to ", schema->max_inputs)),
        " inputs, found ", n));
  }
  std::vector<TensorType> types;
  for (const Output& in : node.inputs) {
    if (in.node < 0 || in.node >= size() || in.index < 0 ||
        in.index >= static_cast<int>(nodes_[in.node].outputs.size())) {
      return absl::InvalidArgumentError(absl::StrCat(who, ": input refers to output ", in.index,
                                                     " of node ", in.node,
                                                     ", which does not exist"));
    }
    types.push_back(type(in));
  }
  for (int control : node.control_inputs) {
    if (control < 0 || control >= size()) {
      return absl::InvalidArgumentError(absl::StrCat(who, ": no node ", control, " to wait for"));
    }
  }
  InferenceContext context(node, std::move(types));
  if (absl::Status s = schema->infer(&context); !s.ok()) return Annotate(s, who);
  for (const TensorType& output : context.outputs()) {
    if (absl::Status s = CheckShape(output.shape); !s.ok()) return Annotate(s, who);
  }
  node.outputs = std::move(context.outputs());
  nodes_.push_back(std::move(node));
  return nodes_.back().id;
}

Function Prune(const Function& function) {
  const Graph& graph = function.graph;
  std::vector<bool> needed(graph.size(), false);
  for (const auto& a : function.arguments) needed[a.node] = true;
  for (const auto& r : function.results) needed[r.output.node] = true;
  for (int t : function.targets) needed[t] = true;
  for (int id = graph.size() - 1; id >= 0; --id) {
    if (!needed[id]) continue;
    for (const Output& in : graph.node(id).inputs) needed[in.node] = true;
    for (int control : graph.node(id).control_inputs) needed[control] = true;
  }
  Function pruned(function.name, graph.registry());
  pruned.device = function.device;
  std::vector<int> new_id(graph.size(), -1);
  for (const Node& node : graph.nodes()) {
    if (!needed[node.id]) continue;
    Node copy = node;
    for (Output& in : copy.inputs) in.node = new_id[in.node];
    for (int& control : copy.control_inputs) control = new_id[control];
    auto id = pruned.graph.Add(std::move(copy));
    COX_CHECK(id.ok(), id.status().message());  // it was valid before
    new_id[node.id] = *id;
  }
  for (auto a : function.arguments) {
    a.node = new_id[a.node];
    pruned.arguments.push_back(std::move(a));
  }
  for (auto r : function.results) {
    r.output.node = new_id[r.output.node];
    pruned.results.push_back(std::move(r));
  }
  for (int t : function.targets) pruned.targets.push_back(new_id[t]);
  return pruned;
}

}  // namespace coxswain::graph
