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

  int64_t constant_bytes() const { return constant_bytes_; }
  // Returns the whole file. Errors: InvalidArgument when it would have 2 GiB or more, which the
  // format does not allow.
  absl::StatusOr<std::string> Finish(const std::string& graph) const;

 private:
  std::string NewName(const std::string& stem);

  int64_t names_ = 0;
  int64_t constant_bytes_ = 0;
  std::string nodes_, constants_, inputs_, outputs_, metadata_;  // encoded fields of the graph
};

}  // namespace coxswain::exporter
