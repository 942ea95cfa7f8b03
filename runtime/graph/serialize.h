// Graphs to and from protobuf. Reading validates everything: a peer may send anything.
#pragma once

#include "absl/status/statusor.h"
#include "protos/graph.pb.h"
#include "runtime/graph/graph.h"

namespace coxswain::graph {

proto::ShapeProto ToProto(const Shape& shape);
Shape FromProto(const proto::ShapeProto& shape);

proto::TensorProto ToProto(const Tensor& tensor);
// Errors: InvalidArgument for a dtype, shape and content that do not fit.
absl::StatusOr<Tensor> FromProto(const proto::TensorProto& proto);

proto::FunctionProto ToProto(const Function& function);
// Errors: as Graph::Add; InvalidArgument for arguments, results or targets that do not exist.
absl::StatusOr<Function> FromProto(const proto::FunctionProto& proto, const OpRegistry* registry);

}  // namespace coxswain::graph
