#include "runtime/cluster/control.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/graph/serialize.h"

namespace coxswain {

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
  if (in.cause() <= 0 || in.cause() > static_cast<int>(ErrorCause::kTerminated)) return status;
  return WithDetail(std::move(status), {static_cast<ErrorCause>(in.cause()), in.retryable(),
                                        in.task(), in.incarnation()});
}

absl::StatusOr<Tensor> PayloadTensor(const Message& message, int dtype,
                                     const proto::ShapeProto& shape_proto) {
  const Shape shape = FromProto(shape_proto);
  if (dtype < 1 || dtype > static_cast<int>(DType::kBF16) || message.payload.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted one tensor, found ", message.payload.size(), " of dtype ", dtype));
  }
  uint64_t bytes = SizeOf(static_cast<DType>(dtype));
  for (int64_t d : shape.dims()) {
    if (d < 0 ||
        (d > 0 && bytes > std::numeric_limits<uint64_t>::max() / static_cast<uint64_t>(d))) {
      return absl::InvalidArgumentError(absl::StrCat("impossible shape ", shape.ToString()));
    }
    bytes *= static_cast<uint64_t>(d);
  }
  if (bytes != message.payload[0].size()) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", shape.ToString(), " wanted ", bytes,
                                                   " bytes, found ", message.payload[0].size()));
  }
  return Tensor(static_cast<DType>(dtype), shape, message.payload[0]);
}

}  // namespace coxswain
