// Attributes, nodes, shapes, tensors and functions to protobuf, and back with all checks.
#include "runtime/graph/serialize.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/tensor/limits.h"

namespace coxswain::graph {
namespace {

// Of all nodes of a function from outside: a few bytes of it may ask for many.
constexpr size_t kMaxOutputs = size_t{1} << 20;

struct AttrWriter {
  proto::AttrProto* out;
  void operator()(std::monostate) const {}
  void operator()(int64_t v) const { out->set_i(v); }
  void operator()(double v) const { out->set_f(v); }
  void operator()(bool v) const { out->set_b(v); }
  void operator()(const std::string& v) const { out->set_s(v); }
  void operator()(DType v) const { out->set_dtype(static_cast<int>(v)); }
  void operator()(const Shape& v) const { *out->mutable_shape() = ToProto(v); }
  void operator()(const std::vector<int64_t>& v) const {
    out->mutable_ints()->mutable_values()->Add(v.begin(), v.end());
  }
  void operator()(const std::vector<std::string>& v) const {
    for (const std::string& s : v) out->mutable_strings()->add_values(s);
    if (v.empty()) out->mutable_strings();
  }
  void operator()(const Tensor& v) const { *out->mutable_tensor() = ToProto(v); }
};

absl::StatusOr<DType> DTypeFromInt(int value) {
  if (value < static_cast<int>(DType::kF32) || value > static_cast<int>(DType::kBF16)) {
    return absl::InvalidArgumentError(absl::StrCat("there is no dtype ", value));
  }
  return static_cast<DType>(value);
}

absl::StatusOr<AttrValue> AttrFromProto(const proto::AttrProto& in) {
  switch (in.value_case()) {
    case proto::AttrProto::kI:
      return AttrValue(static_cast<int64_t>(in.i()));
    case proto::AttrProto::kF:
      return AttrValue(in.f());
    case proto::AttrProto::kB:
      return AttrValue(in.b());
    case proto::AttrProto::kS:
      return AttrValue(in.s());
    case proto::AttrProto::kDtype: {
      ASSIGN_OR_RETURN(DType dtype, DTypeFromInt(in.dtype()));
      return AttrValue(dtype);
    }
    case proto::AttrProto::kShape:
      for (int64_t d : in.shape().dims()) {
        if (d < kUnknownDim) {
          return absl::InvalidArgumentError(
              absl::StrCat("impossible shape ", FromProto(in.shape()).ToString()));
        }
      }
      return AttrValue(FromProto(in.shape()));
    case proto::AttrProto::kInts:
      return AttrValue(std::vector<int64_t>(in.ints().values().begin(), in.ints().values().end()));
    case proto::AttrProto::kStrings:
      return AttrValue(
          std::vector<std::string>(in.strings().values().begin(), in.strings().values().end()));
    case proto::AttrProto::kTensor: {
      ASSIGN_OR_RETURN(Tensor tensor, FromProto(in.tensor()));
      return AttrValue(std::move(tensor));
    }
    case proto::AttrProto::VALUE_NOT_SET:
      break;
  }
  return AttrValue();
}

absl::StatusOr<Node> NodeFromProto(const proto::NodeProto& in) {
  Node node;
  node.name = in.name();
  node.op = in.op();
  if (in.inputs_size() % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat("node '", in.name(), "': torn input list"));
  }
  for (int i = 0; i < in.inputs_size(); i += 2) {
    node.inputs.push_back({in.inputs(i), in.inputs(i + 1)});
  }
  node.control_inputs.assign(in.control_inputs().begin(), in.control_inputs().end());
  for (const auto& [name, value] : in.attrs()) {
    ASSIGN_OR_RETURN(node.attrs[name], AttrFromProto(value));
  }
  ASSIGN_OR_RETURN(node.device, ParseDevice(in.device()));
  return node;
}

}  // namespace

proto::ShapeProto ToProto(const Shape& shape) {
  proto::ShapeProto out;
  out.mutable_dims()->Add(shape.dims().begin(), shape.dims().end());
  return out;
}

Shape FromProto(const proto::ShapeProto& shape) {
  return Shape(absl::MakeConstSpan(shape.dims().data(), static_cast<size_t>(shape.dims_size())));
}

proto::TensorProto ToProto(const Tensor& tensor) {
  proto::TensorProto out;
  out.set_dtype(static_cast<int>(tensor.dtype()));
  if (!tensor.has_value()) return out;
  *out.mutable_shape() = ToProto(tensor.shape());
  out.set_content(tensor.raw(), tensor.bytes());
  return out;
}

absl::StatusOr<Tensor> FromProto(const proto::TensorProto& in) {
  if (in.dtype() == 0) return Tensor();
  ASSIGN_OR_RETURN(DType dtype, DTypeFromInt(in.dtype()));
  const Shape shape = FromProto(in.shape());
  return TensorFromText(dtype, shape, in.content());
}

namespace {

proto::DeviceChoice ToProto(DeviceChoice choice) {
  switch (choice) {
    case DeviceChoice::kAuto:
      return proto::DEVICE_AUTO;
    case DeviceChoice::kCpu:
      return proto::DEVICE_CPU;
    case DeviceChoice::kGpu:
      return proto::DEVICE_GPU;
  }
  return proto::DEVICE_AUTO;
}

absl::StatusOr<DeviceChoice> FromProto(proto::DeviceChoice choice) {
  switch (choice) {
    case proto::DEVICE_AUTO:
      return DeviceChoice::kAuto;
    case proto::DEVICE_CPU:
      return DeviceChoice::kCpu;
    case proto::DEVICE_GPU:
      return DeviceChoice::kGpu;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("there is no device choice ", static_cast<int>(choice)));
  }
}

}  // namespace

proto::FunctionProto ToProto(const Function& function) {
  proto::FunctionProto out;
  out.set_name(function.name);
  for (const Node& node : function.graph.nodes()) {
    proto::NodeProto* n = out.mutable_graph()->add_nodes();
    n->set_name(node.name);
    n->set_op(node.op);
    for (const Output& in : node.inputs) {
      n->add_inputs(in.node);
      n->add_inputs(in.index);
    }
    n->mutable_control_inputs()->Add(node.control_inputs.begin(), node.control_inputs.end());
    for (const auto& [name, value] : node.attrs) {
      std::visit(AttrWriter{&(*n->mutable_attrs())[name]}, value.storage());
    }
    n->set_device(node.device.ToString());
  }
  for (const auto& a : function.arguments) {
    auto* p = out.add_arguments();
    p->set_name(a.name);
    p->set_node(a.node);
  }
  for (const auto& r : function.results) {
    auto* p = out.add_results();
    p->set_name(r.name);
    p->set_node(r.output.node);
    p->set_output(r.output.index);
  }
  out.mutable_targets()->Add(function.targets.begin(), function.targets.end());
  out.set_device(ToProto(function.device));
  return out;
}

absl::StatusOr<Function> FromProto(const proto::FunctionProto& in, const OpRegistry* registry) {
  Function function(in.name(), registry);
  ASSIGN_OR_RETURN(function.device, FromProto(in.device()));
  size_t outputs = 0;
  for (const proto::NodeProto& n : in.graph().nodes()) {
    ASSIGN_OR_RETURN(Node node, NodeFromProto(n));
    ASSIGN_OR_RETURN(const int id, function.graph.Add(std::move(node)));
    outputs += function.graph.node(id).outputs.size();
    if (outputs > kMaxOutputs) {
      return absl::InvalidArgumentError(absl::StrCat("function '", in.name(), "': wanted at most ",
                                                     kMaxOutputs, " outputs of its nodes"));
    }
  }
  const int size = function.graph.size();
  const auto bad = [&](absl::string_view what, int id) {
    return absl::InvalidArgumentError(
        absl::StrCat("function '", in.name(), "': ", what, " refers to node ", id, " of ", size));
  };
  // An executor relies on it that each Arg is set by one argument, and nothing else is.
  std::vector<bool> set(static_cast<size_t>(size), false);
  for (const auto& a : in.arguments()) {
    if (a.node() < 0 || a.node() >= size || function.graph.node(a.node()).op != "Arg" ||
        set[a.node()]) {
      return bad("an argument", a.node());
    }
    set[a.node()] = true;
    function.arguments.push_back({a.name(), function.graph.node(a.node()).outputs[0], a.node()});
  }
  for (const Node& n : function.graph.nodes()) {
    if (n.op == "Arg" && !set[n.id]) {
      return absl::InvalidArgumentError(absl::StrCat("function '", in.name(), "': node '", n.name,
                                                     "' (Arg) is none of its arguments"));
    }
  }
  for (const auto& r : in.results()) {
    if (r.node() < 0 || r.node() >= size || r.output() < 0 ||
        r.output() >= static_cast<int>(function.graph.node(r.node()).outputs.size())) {
      return bad("a result", r.node());
    }
    function.results.push_back({r.name(), {r.node(), r.output()}});
  }
  for (int t : in.targets()) {
    if (t < 0 || t >= size) return bad("a target", t);
    function.targets.push_back(t);
  }
  return function;
}

}  // namespace coxswain::graph
