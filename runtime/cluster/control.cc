#include "runtime/cluster/control.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/graph/serialize.h"
#include "runtime/tensor/limits.h"

namespace coxswain::cluster {

proto::StatusProto ToProto(const absl::Status& status) {
  proto::StatusProto out;
  out.set_code(static_cast<int>(status.code()));
  out.set_message(std::string(status.message()));
  if (const auto detail = GetDetail(status)) {
    out.set_cause(static_cast<int>(detail->cause));
    out.set_retryable(detail->retryable);
    out.set_task(detail->task);
    out.set_incarnation(detail->incarnation);
  }
  return out;
}

absl::Status FromProto(const proto::StatusProto& in) {
  if (in.code() == 0) return absl::OkStatus();
  absl::Status status(static_cast<absl::StatusCode>(in.code()), in.message());
  if (in.cause() <= 0 || in.cause() > static_cast<int>(ErrorCause::kSurplus)) return status;
  return WithDetail(std::move(status), {static_cast<ErrorCause>(in.cause()), in.retryable(),
                                        in.task(), in.incarnation()});
}

namespace {

absl::StatusOr<Tensor> TensorOf(const Buffer& bytes_sent, int dtype,
                                const proto::ShapeProto& shape_proto) {
  const Shape shape = graph::FromProto(shape_proto);
  if (dtype < 1 || dtype > static_cast<int>(DType::kBF16)) {
    return absl::InvalidArgumentError(absl::StrCat("wanted a tensor, found dtype ", dtype));
  }
  return TensorFromBytes(static_cast<DType>(dtype), shape, bytes_sent);
}

absl::Status WantSlices(const net::Message& message, size_t wanted) {
  if (message.payload.size() == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("wanted ", wanted, " tensors, found ", message.payload.size()));
}

}  // namespace

absl::StatusOr<Tensor> PayloadTensor(const net::Message& message, int dtype,
                                     const proto::ShapeProto& shape) {
  RETURN_IF_ERROR(WantSlices(message, 1));
  return TensorOf(message.payload[0], dtype, shape);
}

absl::StatusOr<IdsAndRows> PayloadIdsAndRows(const net::Message& message, int dtype,
                                             const proto::ShapeProto& shape) {
  RETURN_IF_ERROR(WantSlices(message, 2));
  IdsAndRows result;
  ASSIGN_OR_RETURN(result.rows, TensorOf(message.payload[0], dtype, shape));
  if (result.rows.rank() < 1) return absl::InvalidArgumentError("wanted rows, found a scalar");
  proto::ShapeProto ids;
  ids.add_dims(result.rows.dim(0));
  ASSIGN_OR_RETURN(result.ids, TensorOf(message.payload[1], static_cast<int>(DType::kI64), ids));
  return result;
}

void PutTensors(const std::vector<Tensor>& tensors,
                google::protobuf::RepeatedPtrField<proto::RegisterValues::Type>* types,
                std::vector<Buffer>* payload) {
  for (const Tensor& tensor : tensors) {
    proto::RegisterValues::Type* type = types->Add();
    type->set_dtype(static_cast<int>(tensor.dtype()));
    *type->mutable_shape() = graph::ToProto(tensor.shape());
    payload->push_back(tensor.buffer().Slice(0, tensor.bytes()));
  }
}

absl::StatusOr<std::vector<Tensor>> PayloadTensors(
    const net::Message& message,
    const google::protobuf::RepeatedPtrField<proto::RegisterValues::Type>& types) {
  RETURN_IF_ERROR(WantSlices(message, static_cast<size_t>(types.size())));
  std::vector<Tensor> tensors;
  for (int i = 0; i < types.size(); ++i) {
    const Buffer& bytes = message.payload[static_cast<size_t>(i)];
    ASSIGN_OR_RETURN(Tensor tensor, TensorOf(bytes, types[i].dtype(), types[i].shape()));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace coxswain::cluster
