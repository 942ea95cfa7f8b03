#include "runtime/net/wire_format.h"

#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/tensor/limits.h"

namespace coxswain::net {
namespace {

static_assert(std::endian::native == std::endian::little,
              "packets are written as they lie in memory");

absl::Status BadPacket(size_t offset, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("bad packet at byte ", offset, ": ", what));
}

// Reads the prefix at `offset` and checks every length in it but those of the slices.
absl::StatusOr<PacketPrefix> ReadPrefix(const Buffer& batch, size_t offset) {
  const size_t left = batch.size() - offset;
  if (left < sizeof(PacketPrefix)) {
    return BadPacket(
        offset, absl::StrCat("wanted a prefix of ", sizeof(PacketPrefix), " bytes, found ", left));
  }
  PacketPrefix prefix;
  std::memcpy(&prefix, static_cast<const char*>(batch.data()) + offset, sizeof(prefix));
  if (prefix.magic != kPacketMagic) {
    return BadPacket(offset, absl::StrCat("wanted magic ", absl::Hex(kPacketMagic), ", found ",
                                          absl::Hex(prefix.magic)));
  }
  if (prefix.version != kPacketVersion) {
    return BadPacket(offset, absl::StrCat("wanted version ", int{kPacketVersion}, ", found ",
                                          int{prefix.version}));
  }
  if (prefix.kind > static_cast<uint8_t>(PacketKind::kGoodbye)) {
    return BadPacket(offset, absl::StrCat("unknown kind ", int{prefix.kind}));
  }
  if (prefix.packet_bytes < sizeof(PacketPrefix) || prefix.packet_bytes > left) {
    return BadPacket(offset, absl::StrCat("a packet of ", prefix.packet_bytes, " bytes where ",
                                          left, " are left"));
  }
  const uint64_t body = prefix.packet_bytes - sizeof(PacketPrefix);
  if (uint64_t{prefix.slices} * sizeof(uint64_t) > body) {
    return BadPacket(offset, absl::StrCat(prefix.slices, " slices in a packet of ",
                                          prefix.packet_bytes, " bytes"));
  }
  if (prefix.header_bytes > body - uint64_t{prefix.slices} * sizeof(uint64_t)) {
    return BadPacket(offset, absl::StrCat("a header of ", prefix.header_bytes,
                                          " bytes in a packet of ", prefix.packet_bytes, " bytes"));
  }
  return prefix;
}

absl::Status ReadBody(const Buffer& batch, size_t offset, const PacketPrefix& prefix,
                      Packet& packet) {
  const char* base = static_cast<const char*>(batch.data());
  const size_t end = offset + prefix.packet_bytes;
  const size_t sizes = offset + sizeof(PacketPrefix);
  const size_t header = sizes + size_t{prefix.slices} * sizeof(uint64_t);
  packet.kind = static_cast<PacketKind>(prefix.kind);
  packet.message.type = prefix.type;
  packet.message.header.assign(base + header, prefix.header_bytes);
  packet.message.payload.reserve(prefix.slices);
  size_t at = header + prefix.header_bytes;
  for (uint32_t i = 0; i < prefix.slices; ++i) {
    uint64_t bytes;
    std::memcpy(&bytes, base + sizes + i * sizeof(bytes), sizeof(bytes));
    const size_t begin = AlignUp(at);
    if (begin > end || bytes > end - begin) {
      return BadPacket(offset, absl::StrCat("slice ", i, " of ", prefix.slices, " has ", bytes,
                                            " bytes, the packet ", prefix.packet_bytes));
    }
    packet.message.payload.push_back(batch.Slice(begin, bytes));
    at = begin + bytes;
  }
  if (at != end) {
    return BadPacket(offset, absl::StrCat("the packet says ", prefix.packet_bytes,
                                          " bytes, its parts have ", at - offset));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status TooLarge(absl::string_view peer, size_t bytes, size_t most) {
  return absl::ResourceExhaustedError(absl::StrCat("a message to ", peer, " has ", bytes,
                                                   " bytes, at most ", most, " can be sent"));
}

PacketPrefix MakePrefix(const Packet& packet) {
  return {kPacketMagic,
          kPacketVersion,
          static_cast<uint8_t>(packet.kind),
          packet.message.type,
          PacketBytes(packet.message),
          packet.message.header.size(),
          static_cast<uint32_t>(packet.message.payload.size()),
          0};
}

void WritePacket(const Packet& packet, char* out) {
  const Message& message = packet.message;
  size_t at = 0;
  const auto put = [&](const void* data, size_t bytes) {
    if (bytes > 0) std::memcpy(out + at, data, bytes);
    at += bytes;
  };
  const PacketPrefix prefix = MakePrefix(packet);
  put(&prefix, sizeof(prefix));
  for (const Buffer& slice : message.payload) {
    const uint64_t bytes = slice.size();
    put(&bytes, sizeof(bytes));
  }
  put(message.header.data(), message.header.size());
  for (const Buffer& slice : message.payload) {
    const size_t begin = AlignUp(at);
    std::memset(out + at, 0, begin - at);
    at = begin;
    put(slice.data(), slice.size());
  }
}

absl::Status ParsePackets(const Buffer& batch, absl::FunctionRef<bool(Packet)> deliver) {
  size_t offset = 0;
  do {
    ASSIGN_OR_RETURN(const PacketPrefix prefix, ReadPrefix(batch, offset));
    Packet packet;
    RETURN_IF_ERROR(CatchAllocationErrors([&] { return ReadBody(batch, offset, prefix, packet); }));
    if (!deliver(std::move(packet))) return absl::OkStatus();
    offset = AlignUp(offset + prefix.packet_bytes);
  } while (offset < batch.size());
  return absl::OkStatus();
}

Packet GoodbyePacket(const absl::Status& reason) {
  const auto copy = [](absl::string_view text) {
    Buffer bytes = Buffer::Allocate(text.size());
    if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
    return bytes;
  };
  Packet packet{PacketKind::kGoodbye, {}};
  packet.message.type = static_cast<uint16_t>(reason.code());
  packet.message.header = std::string(reason.message());
  reason.ForEachPayload([&](absl::string_view url, const absl::Cord& value) {
    packet.message.payload.push_back(copy(url));
    packet.message.payload.push_back(copy(std::string(value)));
  });
  return packet;
}

absl::Status GoodbyeReason(const Message& goodbye) {
  if (goodbye.type == 0) return absl::OkStatus();
  const bool known = goodbye.type <= static_cast<uint16_t>(absl::StatusCode::kUnauthenticated);
  absl::Status status(
      known ? static_cast<absl::StatusCode>(goodbye.type) : absl::StatusCode::kUnknown,
      goodbye.header);
  const auto text = [](const Buffer& bytes) {
    return absl::string_view(static_cast<const char*>(bytes.data()), bytes.size());
  };
  for (size_t i = 0; i + 1 < goodbye.payload.size(); i += 2) {
    status.SetPayload(text(goodbye.payload[i]), absl::Cord(text(goodbye.payload[i + 1])));
  }
  return status;
}

}  // namespace coxswain::net
