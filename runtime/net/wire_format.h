// How messages look as bytes on a stream.
//
// A batch is one or more packets, each starting at a multiple of 64. A packet, all little-endian:
//
//   PacketPrefix  32 bytes
//   slice sizes   8 bytes each
//   header        prefix.header_bytes
//   slices        each starting at a multiple of 64 of the batch
//
// The bytes between are zero and ignored. So a receiver that puts a batch at an aligned address has
// every slice aligned. The packets know nothing of gRPC.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/net/transport.h"

namespace coxswain::net {

enum class PacketKind : uint8_t {
  kMessage = 0,
  kGoodbye = 1,  // the sender closed the connection; the last packet
};

struct Packet {
  PacketKind kind = PacketKind::kMessage;
  Message message;
};

constexpr uint32_t kPacketMagic = 0x46584f43;  // "COXF"
constexpr uint8_t kPacketVersion = 1;

struct PacketPrefix {
  uint32_t magic;
  uint8_t version;
  uint8_t kind;
  uint16_t type;
  uint64_t packet_bytes;  // from the prefix to the end of the last slice
  uint64_t header_bytes;
  uint32_t slices;
  uint32_t reserved;
};
static_assert(sizeof(PacketPrefix) == 32);

constexpr size_t AlignUp(size_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

// Where the first slice of the message would start, unpadded: prefix, slice sizes and header.
size_t PacketHeadBytes(const Message& message);
// The value of PacketPrefix::packet_bytes.
size_t PacketBytes(const Message& message);
// Why a message to `peer` cannot be sent.
absl::Status TooLarge(absl::string_view peer, size_t bytes, size_t most);

PacketPrefix MakePrefix(const Packet& packet);

// Writes the packet as a batch of its own to `out`, which is aligned to 64 and has room for
// PacketBytes.
void WritePacket(const Packet& packet, char* out);

// Hands out the packets of `batch`, whose payloads are slices of it, until `deliver` returns false.
// Errors: DataLoss, naming what was wanted and found; ResourceExhausted. Packets before the bad one
// have been delivered.
absl::Status ParsePackets(const Buffer& batch, absl::FunctionRef<bool(Packet)> deliver);

// A goodbye carries the whole status, payloads too.
Packet GoodbyePacket(const absl::Status& reason);
// The reason that a goodbye gives. A code that does not exist becomes Unknown.
absl::Status GoodbyeReason(const Message& goodbye);

}  // namespace coxswain::net
