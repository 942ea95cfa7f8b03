#include "kernels/fuse_layers.h"

#include <string>
#include <utility>
#include <vector>

#include "kernels/compute.h"
#include "kernels/product.h"
#include "runtime/base/logging.h"
#include "runtime/graph/op.h"

namespace coxswain::kernels {
namespace {

class Fuser {
 public:
  explicit Fuser(const graph::Function& function)
      : in_(function),
        uses_(function.graph.size(), 0),
        product_(function.graph.size(), -1),
        dropped_(function.graph.size(), false),
        out_(function.name, function.graph.registry()) {
    out_.device = function.device;
  }

  graph::Function Run() {
    CountUses();
    bool any = false;
    for (const graph::Node& node : in_.graph.nodes()) any = Find(node) || any;
    if (!any) return in_;
    Build();
    return std::move(out_);
  }

 private:
  // Edges and whatever else keeps a node as it is.
  void CountUses() {
    for (const graph::Node& node : in_.graph.nodes()) {
      for (const Output& in : node.inputs) ++uses_[in.node];
      for (int control : node.control_inputs) uses_[control] += 2;
    }
    for (const auto& result : in_.results) uses_[result.output.node] += 2;
    for (int target : in_.targets) uses_[target] += 2;
  }

  // Whether the node is a ReLU's gradient of a product that only it uses.
  bool Find(const graph::Node& relu) {
    if (relu.op != "ReluGrad") return false;
    const graph::Node& product = in_.graph.node(relu.inputs[0].node);
    if (product.op != "MatMul" || uses_[product.id] != 1 || product.device != relu.device ||
        !product.control_inputs.empty() ||
        graph::AttrOr<bool>(product.attrs, "transpose_a", false) ||
        !graph::AttrOr<bool>(product.attrs, "transpose_b", false)) {
      return false;
    }
    product_[relu.id] = product.id;
    dropped_[product.id] = true;
    return true;
  }

  bool IsFused(Output value) const { return product_[value.node] >= 0; }

  // Whether the node sums up the rows of a fused one.
  bool IsSum(const graph::Node& node) const {
    return node.op == "ReduceSum" && IsFused(node.inputs[0]) && node.control_inputs.empty() &&
           node.device == in_.graph.node(node.inputs[0].node).device &&
           graph::AttrOr<std::vector<int64_t>>(node.attrs, "axes", {}) == std::vector<int64_t>{0} &&
           !graph::AttrOr<bool>(node.attrs, "keep_dims", false);
  }

  void Build() {
    made_.resize(in_.graph.size());
    for (const graph::Node& node : in_.graph.nodes()) {
      if (dropped_[node.id]) continue;
      if (IsSum(node) && uses_[node.id] > 0) {
        made_[node.id] = {made_[node.inputs[0].node].node, 1};
        continue;
      }
      graph::Node copy = node;
      if (const int id = product_[node.id]; id >= 0) {
        const graph::Node& product = in_.graph.node(id);
        copy.op = "DenseInputGrad";
        copy.inputs = {product.inputs[0], product.inputs[1], node.inputs[1]};
        copy.attrs = WithCompute({}, product.attrs);
        copy.outputs.clear();
      }
      for (Output& in : copy.inputs) in = Mapped(in);
      for (int& control : copy.control_inputs) control = made_[control].node;
      const auto id = out_.graph.Add(std::move(copy));
      COX_CHECK(id.ok(), id.status().message());  // its parts were valid
      made_[node.id] = {*id, 0};
    }
    for (auto argument : in_.arguments) {
      argument.node = made_[argument.node].node;
      out_.arguments.push_back(std::move(argument));
    }
    for (auto result : in_.results) {
      result.output = Mapped(result.output);
      out_.results.push_back(std::move(result));
    }
    for (int target : in_.targets) out_.targets.push_back(made_[target].node);
  }

  Output Mapped(Output value) const {
    const Output made = made_[value.node];
    return {made.node, made.index + value.index};
  }

  const graph::Function& in_;
  std::vector<int> uses_;
  std::vector<int> product_;  // of a ReLU's gradient: the product that it takes in, or -1
  std::vector<bool> dropped_;
  std::vector<Output> made_;  // output 0 of each node in the new graph
  graph::Function out_;
};

}  // namespace

graph::Function FuseLayers(const graph::Function& function) { return Fuser(function).Run(); }

}  // namespace coxswain::kernels
