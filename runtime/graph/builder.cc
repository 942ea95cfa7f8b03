// Nodes with their checks, arguments and results; gradients; and the finished function.
#include "runtime/graph/builder.h"

#include <algorithm>
#include <atomic>
#include <set>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"

namespace coxswain::graph {
namespace {

const TensorType& NoType() {
  static const TensorType* const kNone = new TensorType;
  return *kNone;
}

bool IsGpu(const DeviceSpec& spec) {
  return spec.has_device && spec.device.type == DeviceType::kGpu;
}

size_t HashNode(const std::string& op, const std::vector<Output>& inputs, const Attrs& attrs) {
  size_t hash = absl::HashOf(op, inputs);
  for (const auto& [name, value] : attrs) {
    // Constants are told apart by comparing, not by hashing their bytes.
    if (value.get<Tensor>() != nullptr) continue;
    hash = absl::HashOf(hash, name, value.ToString());
  }
  return hash;
}

// An attribute that nobody reads would be a wish that is silently not granted.
absl::Status CheckAttrs(const OpSchema& schema, const Attrs& attrs) {
  for (const auto& [name, value] : attrs) {
    if (std::find(schema.attrs.begin(), schema.attrs.end(), name) != schema.attrs.end()) continue;
    const std::string wanted =
        schema.attrs.empty() ? "none" : absl::StrCat("one of: ", absl::StrJoin(schema.attrs, ", "));
    return absl::InvalidArgumentError(
        absl::StrCat(schema.name, ": unknown attribute '", name, "', wanted ", wanted));
  }
  return absl::OkStatus();
}

// Marks the nodes that depend on one of `xs`.
std::vector<bool> Dependents(const Graph& graph, const std::vector<Output>& xs) {
  std::vector<bool> depends(graph.size(), false);
  for (const Output& x : xs) depends[x.node] = true;
  for (const Node& node : graph.nodes()) {
    for (const Output& in : node.inputs) {
      if (depends[in.node]) depends[node.id] = true;
    }
  }
  return depends;
}

}  // namespace

uint32_t GraphBuilder::NewNumber() {
  static std::atomic<uint32_t> last{0};
  uint32_t number = 0;
  while (number == 0) number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

bool GraphBuilder::IsOwn(Output output, const std::string& what) {
  if (Made(output)) return true;
  Fail(absl::InvalidArgumentError(absl::StrCat("function '", function_.name, "': ", what,
                                               " is an output of another function")));
  return false;
}

int GraphBuilder::AddNode(const std::string& op, std::vector<Output> inputs, Attrs attrs,
                          std::string name) {
  if (failed()) return -1;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].valid()) {
      Fail(absl::InvalidArgumentError(absl::StrCat(op, ": an input does not exist")));
      return -1;
    }
    if (!IsOwn(inputs[i], absl::StrCat("input ", i, " of ", op))) return -1;
    inputs[i].builder = 0;
  }
  const OpSchema* schema = function_.graph.registry()->Find(op);
  if (schema != nullptr) {
    if (absl::Status known = CheckAttrs(*schema, attrs); !known.ok()) {
      Fail(Annotate(known, absl::StrCat("function '", function_.name, "'")));
      return -1;
    }
  }
  const bool mergeable = schema != nullptr && !schema->stateful && op != "Arg";
  const std::vector<int> after = op == "Const" || op == "Arg" ? std::vector<int>() : after_;
  const size_t hash = mergeable ? HashNode(op, inputs, attrs) : 0;
  const DeviceSpec device = DeviceFor(schema);
  if (mergeable) {
    for (int id : by_hash_[hash]) {
      const Node& node = function_.graph.node(id);
      if (node.op == op && node.inputs == inputs && node.attrs == attrs &&
          node.device == (StaysWithIds(node, device) ? DeviceSpec() : device) &&
          node.control_inputs == after) {
        return id;
      }
    }
  }
  Node node;
  node.op = op;
  node.name = std::move(name);
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  node.device = device;
  node.control_inputs = after;
  auto id = function_.graph.Add(std::move(node));
  if (!id.ok()) {
    Fail(Annotate(id.status(), absl::StrCat("function '", function_.name, "'")));
    return -1;
  }
  Node* const added = function_.graph.mutable_node(*id);
  if (StaysWithIds(*added, device)) added->device = {};
  if (mergeable) by_hash_[hash].push_back(*id);
  return *id;
}

Output GraphBuilder::Op(const std::string& op, std::vector<Output> inputs, Attrs attrs,
                        std::string name) {
  const int id = AddNode(op, std::move(inputs), std::move(attrs), std::move(name));
  if (id < 0) return {};
  if (function_.graph.node(id).outputs.empty()) {
    Fail(absl::InvalidArgumentError(absl::StrCat(op, " has no output")));
    return {};
  }
  return Of(id);
}

std::vector<Output> GraphBuilder::OpN(const std::string& op, std::vector<Output> inputs,
                                      Attrs attrs, int count, std::string name) {
  std::vector<Output> outputs(count);
  const int id = AddNode(op, std::move(inputs), std::move(attrs), std::move(name));
  if (id < 0) return outputs;
  const int found = static_cast<int>(function_.graph.node(id).outputs.size());
  if (found != count) {
    Fail(absl::InvalidArgumentError(
        absl::StrCat(op, ": wanted ", count, " outputs, found ", found)));
    return outputs;
  }
  for (int i = 0; i < count; ++i) outputs[i] = Of(id, i);
  return outputs;
}

int GraphBuilder::Target(const std::string& op, std::vector<Output> inputs, Attrs attrs) {
  const int id = AddNode(op, std::move(inputs), std::move(attrs), "");
  if (id >= 0) function_.targets.push_back(id);
  return id;
}

Output GraphBuilder::Argument(const std::string& name, DType dtype, Shape shape) {
  for (const auto& a : function_.arguments) {
    if (a.name == name) {
      Fail(absl::InvalidArgumentError(absl::StrCat("argument '", name, "' is declared twice")));
      return {};
    }
  }
  const int index = static_cast<int>(function_.arguments.size());
  const int id = AddNode("Arg", {}, {{"index", index}, {"dtype", dtype}, {"shape", shape}},
                         absl::StrCat("arg/", name));
  if (id < 0) return {};
  function_.arguments.push_back({name, {dtype, std::move(shape)}, id});
  return Of(id);
}

Output GraphBuilder::FindArgument(const std::string& name) const {
  for (const auto& a : function_.arguments) {
    if (a.name == name) return Of(a.node);
  }
  return {};
}

Output GraphBuilder::Constant(Tensor value, std::string name) {
  return Op("Const", {}, {{"value", std::move(value)}}, std::move(name));
}

void GraphBuilder::Result(const std::string& name, Output output) {
  if (failed()) return;
  if (!output.valid()) {
    Fail(absl::InvalidArgumentError(absl::StrCat("result '", name, "' does not exist")));
    return;
  }
  if (!IsOwn(output, absl::StrCat("result '", name, "'"))) return;
  for (const auto& result : function_.results) {
    if (result.name != name) continue;
    Fail(absl::InvalidArgumentError(
        absl::StrCat("function '", function_.name, "' has two results of the name '", name, "'")));
    return;
  }
  output.builder = 0;
  function_.results.push_back({name, output});
}

GraphBuilder::DeviceScope::DeviceScope(GraphBuilder* builder, const std::string& device,
                                       bool if_possible)
    : builder_(builder), saved_(builder->pin_) {
  auto spec = ParseDevice(device);
  if (spec.ok()) {
    builder->pin_ = {*spec, if_possible};
  } else {
    builder->Fail(spec.status());
  }
}

GraphBuilder::ControlScope::ControlScope(GraphBuilder* builder, const std::vector<Output>& after)
    : builder_(builder), saved_(builder->after_) {
  std::set<int> all(saved_.begin(), saved_.end());
  for (const Output& output : after) {
    if (!builder->IsOwn(output, "a control dependency")) continue;
    if (output.valid() && output.node < builder->graph().size()) {
      all.insert(output.node);
    } else {
      builder->Fail(absl::InvalidArgumentError("control dependencies: a node does not exist"));
    }
  }
  builder->after_.assign(all.begin(), all.end());
}

const TensorType& GraphBuilder::type(Output output) const {
  return output.valid() && Made(output) ? function_.graph.type(output) : NoType();
}

DeviceSpec GraphBuilder::DeviceFor(const OpSchema* schema) const {
  if (schema == nullptr || !IsGpu(pin_.device) || !pin_.device.job.empty()) return pin_.device;
  // A constant is wherever it is used; an argument comes to the host.
  const bool elsewhere = schema->on_parameter_server || schema->name == "Const" ||
                         schema->name == "Arg" || (pin_.if_possible && schema->on_host);
  return elsewhere ? DeviceSpec() : pin_.device;
}

bool GraphBuilder::StaysWithIds(const Node& node, const DeviceSpec& device) const {
  return pin_.if_possible && IsGpu(device) && !node.outputs.empty() &&
         std::none_of(node.outputs.begin(), node.outputs.end(),
                      [](const TensorType& type) { return IsFloating(type.dtype); });
}

GraphBuilder::Pin GraphBuilder::GradientPin(const DeviceSpec& forward) const {
  return forward.has_device && forward.job != "ps" ? Pin{forward, true} : pin_;
}

std::vector<Output> GraphBuilder::Gradients(const std::vector<Output>& ys,
                                            const std::vector<Output>& xs) {
  std::vector<Output> result(xs.size());
  for (const auto* outputs : {&ys, &xs}) {
    for (const Output& o : *outputs) {
      if (!o.valid()) Fail(absl::InvalidArgumentError("Gradients: an output does not exist"));
      if (!IsOwn(o, "an output given to Gradients")) break;
    }
  }
  if (failed()) return result;
  const std::vector<bool> depends = Dependents(function_.graph, xs);
  absl::flat_hash_map<Output, std::vector<Output>> partial;
  int last = -1;
  for (const Output& y : ys) {
    partial[y].push_back(Op("OnesLike", {y}));
    last = std::max(last, y.node);
  }
  auto total = [&](Output o) -> Output {
    const auto it = partial.find(o);
    if (it == partial.end()) return {};
    if (it->second.size() > 1) it->second = {Op("AddN", it->second)};
    return it->second[0];
  };
  for (int id = last; id >= 0 && !failed(); --id) {
    if (!depends[id]) continue;
    std::vector<Output> output_gradients(function_.graph.node(id).outputs.size());
    bool any = false;
    for (size_t i = 0; i < output_gradients.size(); ++i) {
      output_gradients[i] = total({id, static_cast<int>(i)});
      any = any || output_gradients[i].valid();
    }
    const OpSchema* schema = function_.graph.registry()->Find(function_.graph.node(id).op);
    const bool reaches_x =
        std::any_of(function_.graph.node(id).inputs.begin(), function_.graph.node(id).inputs.end(),
                    [&](const Output& in) { return depends[in.node]; });
    if (!any || !reaches_x || schema->not_differentiable) continue;
    if (schema->gradient == nullptr) {
      Fail(absl::InvalidArgumentError(absl::StrCat("Gradients: the path leads through node '",
                                                   function_.graph.node(id).name, "', and op ",
                                                   schema->name, " has no gradient")));
      break;
    }
    GradientContext context(this, id, std::move(output_gradients));
    // What is computed of a value belongs to the device where it was computed.
    const Pin own = std::exchange(pin_, GradientPin(function_.graph.node(id).device));
    const absl::Status s = schema->gradient(&context);
    pin_ = own;
    if (!s.ok()) {
      Fail(Annotate(s, absl::StrCat("gradient of node '", function_.graph.node(id).name, "'")));
      break;
    }
    for (int i = 0; i < context.num_inputs(); ++i) {
      const Output in = context.input(i);
      const Output gradient = context.input_gradients()[i];
      if (gradient.valid() && depends[in.node]) partial[in].push_back(gradient);
    }
  }
  if (failed()) return result;
  for (size_t i = 0; i < xs.size(); ++i) {
    result[i] = total(xs[i]);
    if (result[i].valid()) result[i] = Of(result[i].node, result[i].index);
  }
  return result;
}

absl::StatusOr<Function> GraphBuilder::Finish() {
  RETURN_IF_ERROR(status_);
  Function pruned = Prune(function_);
  function_ = Function(function_.name, function_.graph.registry());
  number_ = NewNumber();
  by_hash_.clear();
  return pruned;
}

}  // namespace coxswain::graph
