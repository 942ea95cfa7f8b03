// Packets (wire_format.h) in gRPC's byte buffers. Payload slices go out without a copy and come in
// with exactly one.
#pragma once

#include <vector>

#include "grpcpp/support/byte_buffer.h"
#include "runtime/net/wire_format.h"

namespace coxswain::net {

// A batch of all packets. Payload slices of some hundred bytes or more are referred to until gRPC
// has written them; smaller ones are copied, which costs less than another piece of the write.
grpc::ByteBuffer EncodeBatch(std::vector<Packet> packets);

// The bytes in one aligned buffer. Errors: DataLoss when gRPC cannot read them.
absl::StatusOr<Buffer> GatherBatch(const grpc::ByteBuffer& bytes);

}  // namespace coxswain::net
