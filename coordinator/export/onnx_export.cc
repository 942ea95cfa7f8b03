// Values and their names; groups of ops; the graph as a whole.
#include "coordinator/export/onnx_export.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/base/status.h"
#include "runtime/graph/attr.h"
#include "runtime/graph/graph.h"

namespace coxswain::exporter {
namespace {

using Names = std::vector<std::string>;
using Attributes = std::vector<OnnxWriter::Attribute>;

// As f32, in which ONNX programs compute; rounded to bf16 if the graph does so.
Tensor Widened(const Tensor& value, bool round) {
  if (value.dtype() != DType::kBF16 && !(round && value.dtype() == DType::kF32)) return value;
  Tensor wide(DType::kF32, value.shape());
  float* const out = wide.mutable_data<float>();
  for (int64_t i = 0; i < value.num_elements(); ++i) {
    const BFloat16 narrow = value.dtype() == DType::kBF16
                                ? value.data<BFloat16>()[i]
                                : BFloat16::FromFloat(value.data<float>()[i]);
    out[i] = narrow.ToFloat();
  }
  return wide;
}

class Exporter {
 public:
  explicit Exporter(const predict::Predictor& predictor)
      : predictor_(predictor), function_(predictor.function()) {}

  absl::StatusOr<OnnxFile> Run(const OnnxOptions& options);

 private:
  using Translate = absl::StatusOr<Names> (Exporter::*)(const graph::Node&, const Names&);

  absl::StatusOr<Names> NodeOf(const graph::Node& node, const Names& inputs);
  absl::StatusOr<Names> SameName(const graph::Node& node, const Names& in);
  absl::StatusOr<Names> Const(const graph::Node& node, const Names& in);
  absl::StatusOr<Names> Whole(const graph::Node& node, const Names& in);
  absl::StatusOr<Names> Rows(const graph::Node& node, const Names& in);
  absl::StatusOr<Names> Unique(const graph::Node& node, const Names& in);
  absl::StatusOr<Names> Bag(const graph::Node& node, const Names& in);
  absl::StatusOr<Names> BagOf(const graph::Node& node, const Names& in);
  absl::StatusOr<Names> SegmentSum(const graph::Node& node, const Names& in);
  absl::StatusOr<Names> Shaped(const graph::Node& node, const Names& in);
  absl::StatusOr<Names> Reduced(const graph::Node& node, const Names& in);
  absl::StatusOr<Names> Products(const graph::Node& node, const Names& in);
  absl::StatusOr<Names> RowProducts(const graph::Node& node, const Names& in);
  absl::StatusOr<Names> PairwiseDots(const graph::Node& node, const Names& in);

  std::string Sum(const std::string& x, int64_t axis, bool keep) {
    return out_.Node("ReduceSum", {x, out_.Ints({axis})}, {{"keepdims", {keep ? 1 : 0}}});
  }
  std::string Unsqueeze(const std::string& x, int64_t axis) {
    return out_.Node("Unsqueeze", {x, out_.Ints({axis})});
  }
  // The number of a vector's elements, a scalar.
  std::string Count(const std::string& vector) {
    return out_.Node("Squeeze", {out_.Node("Shape", {vector}), out_.Ints({0})});
  }
  absl::StatusOr<std::string> Stored(const graph::Node& node);
  // The ends of bags, i64, by their offsets; and the bag of each of the values, i64.
  std::string BagEnds(const std::string& offsets);
  std::string BagNumbers(const std::string& ends, const std::string& values);

  const predict::Predictor& predictor_;
  const graph::Function& function_;
  OnnxWriter out_;
  std::map<std::pair<int64_t, bool>, std::string> stored_;  // by shard and rounding
};

absl::Status Cannot(const graph::Node& node, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("the model cannot be written as ONNX: ", node.op, " (", node.name, "): ", why));
}

// The value of a shard, shared by all of its readers.
absl::StatusOr<std::string> Exporter::Stored(const graph::Node& node) {
  ASSIGN_OR_RETURN(const int64_t shard, graph::GetAttr<int64_t>(node.attrs, "shard"));
  const bool round = graph::AttrOr<DType>(node.attrs, "wire_dtype", DType::kF32) == DType::kBF16;
  std::string& name = stored_[{shard, round}];
  if (!name.empty()) return name;
  auto value = predictor_.Variable(static_cast<ShardId>(shard));
  if (absl::IsInvalidArgument(value.status())) {
    return Cannot(node, "rows of a hash table go by any id, of which ONNX has no table");
  }
  RETURN_IF_ERROR(value.status());
  name = out_.Constant(Widened(*value, round),
                       absl::StrCat(graph::AttrOr<std::string>(node.attrs, "variable", "variable"),
                                    round ? ".bf16" : "", "#", shard));
  return name;
}

absl::StatusOr<Names> Exporter::Const(const graph::Node& node, const Names&) {
  ASSIGN_OR_RETURN(const Tensor value, graph::GetAttr<Tensor>(node.attrs, "value"));
  return Names{out_.Constant(Widened(value, false))};
}

absl::StatusOr<Names> Exporter::Whole(const graph::Node& node, const Names&) {
  ASSIGN_OR_RETURN(const std::string name, Stored(node));
  return Names{name};
}

absl::StatusOr<Names> Exporter::Rows(const graph::Node& node, const Names& in) {
  ASSIGN_OR_RETURN(const std::string table, Stored(node));
  return Names{out_.Node("Gather", {table, in[0]}, {{"axis", {0}}})};
}

// Ids are looked up without making them unique, which would only save work.
absl::StatusOr<Names> Exporter::Unique(const graph::Node& node, const Names& in) {
  if (graph::AttrOr<int64_t>(node.attrs, "shards", 1) != 1) return Cannot(node, "several shards");
  Names flat, places;
  std::string before = out_.Int(0);
  for (const std::string& ids : in) {
    flat.push_back(out_.Node("Reshape", {ids, out_.Ints({-1})}));
    const std::string end = out_.Node("Add", {before, Count(flat.back())});
    const std::string range = out_.Node("Range", {before, end, out_.Int(1)});
    places.push_back(out_.Node("Reshape", {range, out_.Node("Shape", {ids})}));
    before = end;
  }
  Names all = {flat.size() == 1 ? flat[0] : out_.Node("Concat", flat, {{"axis", {0}}})};
  all.insert(all.end(), places.begin(), places.end());
  return all;
}

std::string Exporter::BagEnds(const std::string& offsets) {
  const std::string wide = out_.Node("Cast", {offsets}, {{"to", {7}}});
  const std::string last = out_.Ints({std::numeric_limits<int64_t>::max()});
  return out_.Node("Slice", {wide, out_.Ints({1}), last, out_.Ints({0})});
}

// A value is in the bag whose end is the first past its number.
std::string Exporter::BagNumbers(const std::string& ends, const std::string& values) {
  const std::string numbers = out_.Node("Range", {out_.Int(0), Count(values), out_.Int(1)});
  const std::string past = out_.Node("LessOrEqual", {Unsqueeze(ends, 0), Unsqueeze(numbers, 1)});
  return Sum(out_.Node("Cast", {past}, {{"to", {7}}}), 1, false);
}

absl::StatusOr<Names> Exporter::BagOf(const graph::Node&, const Names& in) {
  return Names{BagNumbers(BagEnds(in[0]), in[1])};
}

// The zeros take the shape of the third input when the model runs: it has a row for each example.
absl::StatusOr<Names> Exporter::SegmentSum(const graph::Node& node, const Names& in) {
  const int rank = function_.graph.type(node.inputs[1]).shape.rank();
  const std::string zero = out_.Constant(Tensor::FromVector<float>({0.0f}));
  const std::string zeros = out_.Node("Expand", {zero, out_.Node("Shape", {in[2]})});
  return Names{out_.Node("ScatterND", {zeros, Unsqueeze(in[1], rank), in[0]},
                         {{"reduction", {}, false, "add"}})};
}

absl::StatusOr<Names> Exporter::Bag(const graph::Node& node, const Names& in) {
  const auto combiner = graph::AttrOr<std::string>(node.attrs, "combiner", "sum");
  std::string values = out_.Node("Gather", {in[0], in[1]}, {{"axis", {0}}});
  const std::string ends = BagEnds(in[2]);
  const std::string bag = Unsqueeze(BagNumbers(ends, in[1]), 1);
  const std::string bags = out_.Node("Shape", {ends});
  const std::string zero = out_.Constant(Tensor::FromVector<float>({0.0f}));
  const auto added = [&](const std::string& rows, const std::string& shape) {
    const std::string zeros = out_.Node("Expand", {zero, shape});
    return out_.Node("ScatterND", {zeros, bag, rows}, {{"reduction", {}, false, "add"}});
  };
  const std::string width = out_.Ints({function_.graph.type({node.inputs[0]}).shape.dim(1)});
  const std::string shape = out_.Node("Concat", {bags, width}, {{"axis", {0}}});
  std::string weights;
  if (in.size() > 3) {
    weights = in[3];
    values = out_.Node("Mul", {values, Unsqueeze(weights, 1)});
  } else {
    const std::string one = out_.Constant(Tensor::FromVector<float>({1.0f}));
    weights = out_.Node("Expand", {one, out_.Node("Shape", {in[1]})});
  }
  const std::string sums = added(values, shape);
  if (combiner == "sum") return Names{sums};
  const bool roots = combiner == "sqrtn";
  std::string divisor = added(roots ? out_.Node("Mul", {weights, weights}) : weights, bags);
  if (roots) divisor = out_.Node("Sqrt", {divisor});
  const std::string none = out_.Node("Equal", {divisor, zero});
  const std::string one = out_.Constant(Tensor::FromVector<float>({1.0f}));
  const std::string safe = out_.Node("Where", {none, one, divisor});
  const std::string mean = out_.Node("Div", {sums, Unsqueeze(safe, 1)});
  return Names{out_.Node("Where", {Unsqueeze(none, 1), zero, mean})};
}

absl::StatusOr<Names> Exporter::Shaped(const graph::Node& node, const Names& in) {
  if (node.op == "Concat") {
    return Names{
        out_.Node("Concat", in, {{"axis", {graph::AttrOr<int64_t>(node.attrs, "axis", 0)}}})};
  }
  if (node.op == "Gather") return Names{out_.Node("Gather", in, {{"axis", {0}}})};
  if (node.op == "Reshape") {
    ASSIGN_OR_RETURN(const Shape shape, graph::GetAttr<Shape>(node.attrs, "shape"));
    return Names{
        out_.Node("Reshape", {in[0], out_.Ints({shape.dims().begin(), shape.dims().end()})})};
  }
  if (node.op == "Transpose") {
    ASSIGN_OR_RETURN(const auto perm, graph::GetAttr<std::vector<int64_t>>(node.attrs, "perm"));
    return Names{out_.Node("Transpose", in, {{"perm", perm, true}})};
  }
  if (node.op == "ExpandDims" || node.op == "Squeeze") {
    ASSIGN_OR_RETURN(const int64_t axis, graph::GetAttr<int64_t>(node.attrs, "axis"));
    return Names{node.op == "Squeeze" ? out_.Node("Squeeze", {in[0], out_.Ints({axis})})
                                      : Unsqueeze(in[0], axis)};
  }
  if (node.op == "Cast") {
    ASSIGN_OR_RETURN(const DType to, graph::GetAttr<DType>(node.attrs, "dtype"));
    if (to == DType::kF32 || to == DType::kI64) {
      return Names{out_.Node("Cast", in, {{"to", {to == DType::kF32 ? 1 : 7}}})};
    }
    return Cannot(node, absl::StrCat("numbers of ", DTypeName(to)));
  }
  return Cannot(node, "there is no counterpart");
}

absl::StatusOr<Names> Exporter::Reduced(const graph::Node& node, const Names& in) {
  const auto axes = graph::AttrOr<std::vector<int64_t>>(node.attrs, "axes", {});
  const int64_t keep = graph::AttrOr<bool>(node.attrs, "keep_dims", false) ? 1 : 0;
  if (node.op == "ReduceSum") {
    Names inputs = {in[0]};
    if (!axes.empty()) inputs.push_back(out_.Ints(axes));
    return Names{out_.Node("ReduceSum", inputs, {{"keepdims", {keep}}})};
  }
  Attributes attributes = {{"keepdims", {keep}}};
  if (!axes.empty()) attributes.push_back({"axes", axes, true});
  return Names{out_.Node(node.op, in, attributes)};
}

absl::StatusOr<Names> Exporter::Products(const graph::Node& node, const Names& in) {
  if (node.op == "MatMul" || node.op == "BatchMatMul") {
    const std::vector<int64_t> other_way =
        node.op == "MatMul" ? std::vector<int64_t>{1, 0} : std::vector<int64_t>{0, 2, 1};
    const auto turned = [&](const char* key, const std::string& x) {
      return graph::AttrOr<bool>(node.attrs, key, false)
                 ? out_.Node("Transpose", {x}, {{"perm", other_way, true}})
                 : x;
    };
    return Names{out_.Node("MatMul", {turned("transpose_a", in[0]), turned("transpose_b", in[1])})};
  }
  const std::string sum = out_.Node("Gemm", in);
  const auto activation = graph::AttrOr<std::string>(node.attrs, "activation", "");
  if (activation.empty() || activation == "none") return Names{sum};
  if (activation == "relu") return Names{out_.Node("Relu", {sum})};
  return Cannot(node, absl::StrCat("the activation ", activation));
}

absl::StatusOr<Names> Exporter::RowProducts(const graph::Node& node, const Names& in) {
  if (node.op == "ScaleRows") return Names{out_.Node("Mul", {in[0], Unsqueeze(in[1], 1)})};
  std::string a = in[0], b = in[1];
  if (node.op == "PairDot") {
    a = out_.Node("Gather", {a, in[2]}, {{"axis", {0}}});
    b = out_.Node("Gather", {b, in[3]}, {{"axis", {0}}});
  }
  return Names{Sum(out_.Node("Mul", {a, b}), 1, false)};
}

absl::StatusOr<Names> Exporter::PairwiseDots(const graph::Node& node, const Names& in) {
  Names stacked;
  for (const std::string& vector : in) stacked.push_back(Unsqueeze(vector, 1));
  const std::string all = out_.Node("Concat", stacked, {{"axis", {1}}});
  const std::string turned = out_.Node("Transpose", {all}, {{"perm", {0, 2, 1}, true}});
  const auto count = static_cast<int64_t>(in.size());
  const std::string products =
      out_.Node("Reshape", {out_.Node("MatMul", {all, turned}), out_.Ints({-1, count * count})});
  std::vector<int64_t> places;
  for (int64_t i = 1; i < count; ++i) {
    for (int64_t j = 0; j < i; ++j) places.push_back(i * count + j);
  }
  const std::string dots = out_.Node("Gather", {products, out_.Ints(places)}, {{"axis", {1}}});
  if (!graph::AttrOr<bool>(node.attrs, "with_first", false)) return Names{dots};
  return Names{out_.Node("Concat", {in[0], dots}, {{"axis", {1}}})};
}

// Ops of one output that exist in both, with ONNX's name.
absl::StatusOr<Names> Exporter::SameName(const graph::Node& node, const Names& in) {
  if (node.op == "Square") return Names{out_.Node("Mul", {in[0], in[0]})};
  if (node.op == "Rsqrt") return Names{out_.Node("Reciprocal", {out_.Node("Sqrt", in)})};
  if (node.op == "Softmax" || node.op == "LogSoftmax") {
    return Names{out_.Node(node.op, in, {{"axis", {-1}}})};
  }
  static const auto* const kNames = new std::map<std::string, std::string>{
      {"AddN", "Sum"}, {"Maximum", "Max"}, {"Minimum", "Min"}, {"StopGradient", "Identity"}};
  const auto other = kNames->find(node.op);
  return Names{out_.Node(other == kNames->end() ? node.op : other->second, in)};
}

absl::StatusOr<Names> Exporter::NodeOf(const graph::Node& node, const Names& inputs) {
  static const auto* const kOps = new std::map<std::string, Translate>{
      {"Const", &Exporter::Const},          {"ReadVariable", &Exporter::Whole},
      {"GatherShard", &Exporter::Rows},     {"UniqueShards", &Exporter::Unique},
      {"EmbeddingBag", &Exporter::Bag},     {"Concat", &Exporter::Shaped},
      {"BagOf", &Exporter::BagOf},          {"SegmentSumLike", &Exporter::SegmentSum},
      {"Gather", &Exporter::Shaped},        {"Reshape", &Exporter::Shaped},
      {"ExpandDims", &Exporter::Shaped},    {"Squeeze", &Exporter::Shaped},
      {"Cast", &Exporter::Shaped},          {"ReduceSum", &Exporter::Reduced},
      {"ReduceMean", &Exporter::Reduced},   {"ReduceMax", &Exporter::Reduced},
      {"MatMul", &Exporter::Products},      {"FusedDense", &Exporter::Products},
      {"BatchMatMul", &Exporter::Products}, {"Transpose", &Exporter::Shaped},
      {"RowDot", &Exporter::RowProducts},   {"ScaleRows", &Exporter::RowProducts},
      {"PairDot", &Exporter::RowProducts},  {"PairwiseDots", &Exporter::PairwiseDots}};
  static const auto* const kSame = new std::set<std::string>{
      "Add",  "Sub",  "Mul",     "Div",      "AddN",    "Maximum",    "Minimum",  "Neg",
      "Exp",  "Log",  "Square",  "Sqrt",     "Rsqrt",   "Abs",        "Sign",     "Reciprocal",
      "Relu", "Tanh", "Sigmoid", "Softplus", "Softmax", "LogSoftmax", "Identity", "StopGradient"};
  const auto found = kOps->find(node.op);
  if (found != kOps->end()) return (this->*found->second)(node, inputs);
  if (kSame->count(node.op) > 0) return SameName(node, inputs);
  return Cannot(node, "there is no counterpart");
}

absl::StatusOr<OnnxFile> Exporter::Run(const OnnxOptions& options) {
  std::vector<Names> outputs(static_cast<size_t>(function_.graph.size()));
  for (const graph::Function::Argument& argument : function_.arguments) {
    outputs[static_cast<size_t>(argument.node)] = {argument.name};
    const bool open = argument.type.shape.rank() > 0;
    out_.Input(argument.name, argument.type.dtype, argument.type.shape,
               !open || argument.name.find('.') == std::string::npos ? "batch" : argument.name);
  }
  for (const graph::Node& node : function_.graph.nodes()) {
    Names& mine = outputs[static_cast<size_t>(node.id)];
    if (!mine.empty()) continue;
    Names inputs;
    for (const coxswain::Output& input : node.inputs) {
      inputs.push_back(outputs[static_cast<size_t>(input.node)][static_cast<size_t>(input.index)]);
    }
    ASSIGN_OR_RETURN(mine, NodeOf(node, inputs));
  }
  for (const graph::Function::Result& result : function_.results) {
    const coxswain::Output value = result.output;
    // A column may have the same name.
    const bool taken = std::any_of(function_.arguments.begin(), function_.arguments.end(),
                                   [&](const auto& a) { return a.name == result.name; });
    out_.Output(taken ? absl::StrCat("model.", result.name) : result.name,
                outputs[static_cast<size_t>(value.node)][static_cast<size_t>(value.index)],
                function_.graph.type(value).shape);
  }
  out_.Metadata("coxswain.job", predictor_.job().name);
  out_.Metadata("coxswain.steps", absl::StrCat(predictor_.steps()));
  return out_.Finish(predictor_.job().name.empty() ? "model" : predictor_.job().name, options);
}

}  // namespace

absl::StatusOr<OnnxFile> ToOnnx(const predict::Predictor& predictor, const OnnxOptions& options) {
  // Of its attention hardly an op has a counterpart: which one comes first says nothing to anyone.
  if (job::KindOf(*predictor.job().model).name == absl::string_view("sasrec")) {
    return absl::FailedPreconditionError(
        "a sasrec cannot be exported to ONNX yet; `coxswain predict` and `coxswain serve` answer "
        "with it");
  }
  return Exporter(predictor).Run(options);
}

}  // namespace coxswain::exporter
