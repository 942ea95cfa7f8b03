// Protobuf's wire format; the messages TensorProto, ValueInfoProto, NodeProto, GraphProto and
// ModelProto by the numbers of their fields.
#include "coordinator/export/onnx_writer.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/version.h"

namespace coxswain::exporter {
namespace {

constexpr int64_t kMostBytes = int64_t{2'000'000'000};
constexpr int64_t kIrVersion = 8;  // of opset 17

void AppendVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

void AppendInt(int field, int64_t value, std::string* out) {
  AppendVarint(static_cast<uint64_t>(field) << 3, out);
  AppendVarint(static_cast<uint64_t>(value), out);
}

void AppendBytes(int field, absl::string_view bytes, std::string* out) {
  AppendVarint(static_cast<uint64_t>(field) << 3 | 2, out);
  AppendVarint(bytes.size(), out);
  out->append(bytes.data(), bytes.size());
}

// TensorProto.DataType.
int64_t TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 11;
    case DType::kI32:
      return 6;
    case DType::kI64:
      return 7;
    case DType::kBool:
      return 9;
    case DType::kF32:
    case DType::kBF16:
    case DType::kInvalid:
      break;
  }
  return 1;  // bf16 is written as f32
}

// ValueInfoProto.
std::string ValueInfo(const std::string& name, DType dtype, const Shape& shape,
                      const std::string& open) {
  std::string dims;
  for (const int64_t dim : shape.dims()) {
    std::string one;
    if (dim >= 0) {
      AppendInt(1, dim, &one);
    } else {
      AppendBytes(2, open, &one);
    }
    AppendBytes(1, one, &dims);
  }
  std::string tensor, type, info;
  AppendInt(1, TypeOf(dtype), &tensor);
  AppendBytes(2, dims, &tensor);
  AppendBytes(1, tensor, &type);
  AppendBytes(1, name, &info);
  AppendBytes(2, type, &info);
  return info;
}

}  // namespace

std::string OnnxWriter::NewName(const std::string& stem) {
  return absl::StrCat(stem, "_", names_++);
}

std::string OnnxWriter::Node(const std::string& op, const std::vector<std::string>& inputs,
                             const std::vector<Attribute>& attributes) {
  const std::string name = NewName(op);
  std::string node;
  for (const std::string& input : inputs) AppendBytes(1, input, &node);
  AppendBytes(2, name, &node);
  AppendBytes(3, name, &node);
  AppendBytes(4, op, &node);
  constexpr int64_t kInt = 2, kString = 3, kInts = 7;
  for (const Attribute& attribute : attributes) {
    std::string text;
    AppendBytes(1, attribute.name, &text);
    if (!attribute.text.empty()) {
      AppendBytes(4, attribute.text, &text);
    } else {
      for (const int64_t value : attribute.ints) AppendInt(attribute.list ? 8 : 3, value, &text);
    }
    AppendInt(20, !attribute.text.empty() ? kString : attribute.list ? kInts : kInt, &text);
    AppendBytes(5, text, &node);
  }
  AppendBytes(1, node, &nodes_);
  return name;
}

std::string OnnxWriter::Constant(const Tensor& value, const std::string& name) {
  const std::string as = name.empty() ? NewName("constant") : name;
  std::string tensor;
  for (const int64_t dim : value.shape().dims()) AppendInt(1, dim, &tensor);
  AppendInt(2, TypeOf(value.dtype()), &tensor);
  AppendBytes(8, as, &tensor);
  constant_bytes_ += static_cast<int64_t>(value.bytes());
  if (constant_bytes_ >= kMostBytes) return as;  // Finish tells
  AppendBytes(9, {static_cast<const char*>(value.raw()), value.bytes()}, &tensor);
  AppendBytes(5, tensor, &constants_);
  return as;
}

std::string OnnxWriter::Ints(const std::vector<int64_t>& values) {
  return Constant(Tensor::FromVector<int64_t>(values));
}

std::string OnnxWriter::Int(int64_t value) {
  Tensor scalar(DType::kI64, Shape{});
  *scalar.mutable_data<int64_t>() = value;
  return Constant(scalar);
}

void OnnxWriter::Input(const std::string& name, DType dtype, const Shape& shape,
                       const std::string& open) {
  AppendBytes(11, ValueInfo(name, dtype, shape, open), &inputs_);
}

void OnnxWriter::Output(const std::string& name, const std::string& value, const Shape& shape) {
  std::string node;
  AppendBytes(1, value, &node);
  AppendBytes(2, name, &node);
  AppendBytes(3, name, &node);
  AppendBytes(4, "Identity", &node);
  AppendBytes(1, node, &nodes_);
  AppendBytes(12, ValueInfo(name, DType::kF32, shape, "batch"), &outputs_);
}

void OnnxWriter::Metadata(const std::string& key, const std::string& value) {
  std::string entry;
  AppendBytes(1, key, &entry);
  AppendBytes(2, value, &entry);
  AppendBytes(14, entry, &metadata_);
}

absl::StatusOr<std::string> OnnxWriter::Finish(const std::string& graph_name) const {
  if (constant_bytes_ >= kMostBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tables and layers have ", constant_bytes_,
                     " bytes, and a file of ONNX takes less than ", kMostBytes,
                     ": use `coxswain serve`, or safetensors for other programs"));
  }
  std::string graph = nodes_;
  AppendBytes(2, graph_name, &graph);
  graph += constants_;
  graph += inputs_;
  graph += outputs_;
  std::string opset, model;
  AppendBytes(1, "", &opset);
  AppendInt(2, kOnnxOpset, &opset);
  AppendInt(1, kIrVersion, &model);
  AppendBytes(2, "coxswain", &model);
  AppendBytes(3, kVersion, &model);
  AppendBytes(7, graph, &model);
  AppendBytes(8, opset, &model);
  model += metadata_;
  return model;
}

}  // namespace coxswain::exporter
