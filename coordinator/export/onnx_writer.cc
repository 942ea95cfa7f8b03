// Protobuf's wire format; the messages TensorProto, ValueInfoProto, NodeProto, GraphProto and
// ModelProto by the numbers of their fields.
#include "coordinator/export/onnx_writer.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/version.h"
#include "runtime/data/crc32c.h"

namespace coxswain::exporter {
namespace {

constexpr size_t kMostBytes = size_t{2'000'000'000};
constexpr size_t kLeastOutside = 1024;
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

absl::string_view BytesOf(const Tensor& value) {
  return {static_cast<const char*>(value.raw()), value.bytes()};
}

// TensorProto without its elements.
std::string TensorHead(const std::string& name, const Tensor& value) {
  std::string tensor;
  for (const int64_t dim : value.shape().dims()) AppendInt(1, dim, &tensor);
  AppendInt(2, TypeOf(value.dtype()), &tensor);
  AppendBytes(8, name, &tensor);
  return tensor;
}

// Where the elements are: StringStringEntryProto of `external_data`, and `data_location` EXTERNAL.
void AppendPlace(const std::string& file, size_t offset, size_t bytes, std::string* tensor) {
  const std::pair<std::string, std::string> entries[] = {
      {"location", file}, {"offset", absl::StrCat(offset)}, {"length", absl::StrCat(bytes)}};
  for (const auto& [key, value] : entries) {
    std::string entry;
    AppendBytes(1, key, &entry);
    AppendBytes(2, value, &entry);
    AppendBytes(13, entry, tensor);
  }
  AppendInt(14, 1, tensor);
}

size_t RoundUp(size_t bytes) {
  return (bytes + kOnnxAlignment - 1) / kOnnxAlignment * kOnnxAlignment;
}

// Of all checksums: one pass over each constant.
std::string ChecksumOf(const std::vector<Tensor>& data) {
  std::string all;
  for (const Tensor& value : data) absl::StrAppend(&all, data::Crc32c(BytesOf(value)), ",");
  return absl::StrFormat("%08x", data::Crc32c(all));
}

}  // namespace

std::string OnnxDataName(const std::string& model_name, const std::string& checksum) {
  return absl::StrCat(model_name, ".", checksum, ".data");
}

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
  constants_.push_back({name.empty() ? NewName("constant") : name, value});
  return constants_.back().name;
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

absl::StatusOr<OnnxFile> OnnxWriter::Finish(const std::string& graph_name,
                                            const OnnxOptions& options) const {
  size_t bytes = 0;
  for (const NamedConstant& constant : constants_) bytes += constant.value.bytes();
  const bool outside = options.external_data || bytes >= kMostBytes;
  OnnxFile file;
  for (const NamedConstant& constant : constants_) {
    if (!outside || constant.value.bytes() < kLeastOutside) continue;
    bytes -= constant.value.bytes();
    file.data.push_back(constant.value);
  }
  if (bytes >= kMostBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the small constants of the graph have ", bytes,
                                                   " bytes, wanted less than ", kMostBytes));
  }
  if (!file.data.empty()) file.checksum = ChecksumOf(file.data);
  std::string graph = nodes_;
  AppendBytes(2, graph_name, &graph);
  size_t offset = 0;
  for (const NamedConstant& constant : constants_) {
    std::string tensor = TensorHead(constant.name, constant.value);
    if (outside && constant.value.bytes() >= kLeastOutside) {
      AppendPlace(OnnxDataName(options.name, file.checksum), offset, constant.value.bytes(),
                  &tensor);
      offset += RoundUp(constant.value.bytes());
    } else {
      AppendBytes(9, BytesOf(constant.value), &tensor);
    }
    AppendBytes(5, tensor, &graph);
  }
  graph += inputs_;
  graph += outputs_;
  std::string opset;
  AppendBytes(1, "", &opset);
  AppendInt(2, kOnnxOpset, &opset);
  AppendInt(1, kIrVersion, &file.model);
  AppendBytes(2, "coxswain", &file.model);
  AppendBytes(3, kVersion, &file.model);
  AppendBytes(7, graph, &file.model);
  AppendBytes(8, opset, &file.model);
  file.model += metadata_;
  return file;
}

}  // namespace coxswain::exporter
