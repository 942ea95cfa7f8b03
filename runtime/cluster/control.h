// Control messages: the protobufs of protos/control.proto in transport messages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coxswain/tensor.h"
#include "protos/control.pb.h"
#include "runtime/net/message_type.h"
#include "runtime/net/transport.h"

namespace coxswain::cluster {

// In place of a slot, in proto::ReadRows and WriteRows: the moving averages.
inline constexpr int kAverages = -1;
// In proto::ReadRows, of any shard: an i64 [1], the number of updates with gradients that the slots
// have behind them.
inline constexpr int kGradientSteps = -2;
// In both, of a hash table that evicts rows: a RowUse for each row, as i64 [n, 3].
inline constexpr int kUses = -3;

// How a row of a hash table has been used, which decides whether it stays.
struct RowUse {
  int64_t updates = 0;  // it has taken
  int64_t age = 0;      // updates of its shard since the last of them; see HashRows::SetUses
  int64_t idle_us = 0;  // microseconds since then; 0 without ttl_seconds
};
inline constexpr int64_t kUseNumbers = 3;
static_assert(sizeof(RowUse) == kUseNumbers * sizeof(int64_t));

proto::StatusProto ToProto(const absl::Status& status);
absl::Status FromProto(const proto::StatusProto& status);

template <typename Proto>
net::Message EncodeControl(net::MessageType type, const Proto& proto) {
  net::Message message;
  message.type = static_cast<uint16_t>(type);
  proto.SerializeToString(&message.header);
  return message;
}

// Errors: InvalidArgument when the header is not such a protobuf.
template <typename Proto>
absl::StatusOr<Proto> DecodeControl(const net::Message& message) {
  Proto proto;
  if (!proto.ParseFromString(message.header)) {
    return absl::InvalidArgumentError("control message is torn");
  }
  return proto;
}

// The tensor that travels as the only payload slice. Errors: InvalidArgument when it does not fit.
absl::StatusOr<Tensor> PayloadTensor(const net::Message& message, int dtype,
                                     const proto::ShapeProto& shape);

// Rows of a hash table and their ids.
struct IdsAndRows {
  Tensor ids;   // i64 [n]
  Tensor rows;  // [n, row...], or [n] of a part of one value a row
};
// They travel as two payload slices: rows, then ids. Errors: InvalidArgument when they do not fit.
absl::StatusOr<IdsAndRows> PayloadIdsAndRows(const net::Message& message, int dtype,
                                             const proto::ShapeProto& shape);

// Any number of tensors, a payload slice each. `payload` shares their memory.
void PutTensors(const std::vector<Tensor>& tensors,
                google::protobuf::RepeatedPtrField<proto::RegisterValues::Type>* types,
                std::vector<Buffer>* payload);
// Errors: InvalidArgument when they do not fit.
absl::StatusOr<std::vector<Tensor>> PayloadTensors(
    const net::Message& message,
    const google::protobuf::RepeatedPtrField<proto::RegisterValues::Type>& types);

}  // namespace coxswain::cluster
