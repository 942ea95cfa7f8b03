// Writes a model in the ONNX format (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto), as
// far as scoring functions need it: nodes, constants, inputs and outputs. It writes the wire format
// of these messages directly, so that large constants are copied once.
//
// Thread model: one thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coxswain/tensor.h"

namespace coxswain::exporter {

// The version of the operator set.
inline constexpr int64_t kOnnxOpset = 17;

// Programs map a file of data by pages; constants in it begin at multiples of this.
inline constexpr size_t kOnnxAlignment = 4096;

// The checksum in the name of a file of data, and the name: "model.onnx.0c1f3a9e.data". A file of
// another content has another name, so that a model never finds the data of an older one.
struct OnnxFile {
  std::string model;              // the bytes of the .onnx file
  std::string checksum = {};      // of the data, 8 digits; empty: all is in the model
  std::vector<Tensor> data = {};  // the file of data, each at a multiple of kOnnxAlignment
};
std::string OnnxDataName(const std::string& model_name, const std::string& checksum);

struct OnnxOptions {
  std::string name = "model.onnx";  // of the file, without directories
  bool external_data = false;       // also where a single file would do
};

class OnnxWriter {
 public:
  // An attribute of a node: an integer, a list of them, or a text.
  struct Attribute {
    std::string name;
    std::vector<int64_t> ints = {};
    bool list = false;
    std::string text = {};
  };

  // Adds a node and returns the name of its only output.
  std::string Node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::vector<Attribute>& attributes = {});
  // A constant of the graph: f32, f64, i32, i64 or bool. Returns its name.
  std::string Constant(const Tensor& value, const std::string& name = "");
  std::string Ints(const std::vector<int64_t>& values);  // i64 [n]
  std::string Int(int64_t value);                        // i64, a scalar
  // `shape`: an unknown dimension is named "batch", or has a name of its own for each input.
  void Input(const std::string& name, DType dtype, const Shape& shape, const std::string& open);
  // `value` is the name of a node's output.
  void Output(const std::string& name, const std::string& value, const Shape& shape);
  void Metadata(const std::string& key, const std::string& value);

  // Constants of 1 KiB and more are in a file of their own if those of the graph have 2 GB
  // together, which a single file cannot hold, or if `options` wants so.
  // Errors: InvalidArgument when the rest has 2 GB.
  absl::StatusOr<OnnxFile> Finish(const std::string& graph, const OnnxOptions& options) const;

 private:
  struct NamedConstant {
    std::string name;
    Tensor value;
  };

  std::string NewName(const std::string& stem);

  int64_t names_ = 0;
  std::vector<NamedConstant> constants_;
  std::string nodes_, inputs_, outputs_, metadata_;  // encoded fields of the graph
};

}  // namespace coxswain::exporter
