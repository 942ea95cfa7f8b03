// Packets as bytes: what is written is read back, and no bytes from a peer do harm.
#include <random>

#include "runtime/base/status.h"
#include "runtime/net/address.h"
#include "runtime/net/grpc_codec.h"
#include "runtime/net/wire_format.h"
#include "tests/testing/failing_memory.h"
#include "tests/unit/runtime/net/harness.h"

namespace coxswain::net_testing {
namespace {

Buffer Encode(std::vector<net::Packet> packets) {
  const grpc::ByteBuffer bytes = net::EncodeBatch(std::move(packets));
  auto batch = net::GatherBatch(bytes);
  REQUIRE(batch.ok());
  return *batch;
}

net::Packet MakePacket(uint16_t type, size_t header, std::vector<size_t> slices) {
  net::Packet packet{net::PacketKind::kMessage, {type, std::string(header, 'x'), {}}};
  for (size_t size : slices) {
    packet.message.payload.push_back(Bytes(size, static_cast<uint32_t>(size + type)));
  }
  return packet;
}

std::vector<net::Packet> Parse(const Buffer& batch, absl::Status* status) {
  std::vector<net::Packet> packets;
  *status = net::ParsePackets(batch, [&](net::Packet packet) {
    packets.push_back(std::move(packet));
    return true;
  });
  return packets;
}

TEST_CASE("a batch of packets is read back as it was written", "[net]") {
  const std::vector<net::Packet> sent = {
      MakePacket(1, 10, {}), MakePacket(2, 0, {0, 5, 600, 3, 2000, 0}),
      MakePacket(3, 100, {64, 512}), MakePacket(65535, 1, {511})};
  const Buffer batch = Encode(sent);
  absl::Status status;
  const std::vector<net::Packet> received = Parse(batch, &status);
  REQUIRE(status.ok());
  REQUIRE(received.size() == sent.size());
  for (size_t i = 0; i < sent.size(); ++i) {
    CHECK(SameMessage(received[i].message, sent[i].message));
  }
}

TEST_CASE("a packet that there is no memory for ends its batch; those before it were delivered",
          "[net][memory]") {
  const Buffer batch =
      Encode({MakePacket(1, 10, {5}), MakePacket(2, 0, std::vector<size_t>(1000, 1))});
  absl::Status status;
  std::vector<net::Packet> received;
  {
    testing::FailingMemory memory(0);
    received = Parse(batch, &status);
    CHECK(memory.failed());
  }
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  CHECK(received.size() == 1);
  received = Parse(batch, &status);
  CHECK(status.ok());
  CHECK(received.size() == 2);
}

TEST_CASE("a large payload slice is written from where it lies", "[net]") {
  net::Packet packet = MakePacket(1, 3, {100, 4096});
  const void* large = packet.message.payload[1].data();
  std::vector<net::Packet> packets;
  packets.push_back(std::move(packet));
  const grpc::ByteBuffer bytes = net::EncodeBatch(std::move(packets));
  std::vector<grpc::Slice> slices;
  REQUIRE(bytes.Dump(&slices).ok());
  REQUIRE(slices.size() == 2);
  CHECK(slices[1].begin() == large);
}

TEST_CASE("a goodbye carries the whole status", "[net]") {
  const absl::Status reason =
      WithDetail(absl::AbortedError("stale"), {ErrorCause::kStaleEpoch, true, "/job:ps/task:0", 5});
  CHECK(net::GoodbyeReason(net::GoodbyePacket(reason).message) == reason);
  CHECK(net::GoodbyeReason(net::GoodbyePacket(absl::OkStatus()).message).ok());
  net::Packet strange = net::GoodbyePacket(reason);
  strange.message.type = 999;
  CHECK(net::GoodbyeReason(strange.message).code() == absl::StatusCode::kUnknown);
}

TEST_CASE("each wrong length in a packet is DataLoss", "[net]") {
  const Buffer good = Encode({MakePacket(1, 16, {70, 0, 600})});
  const auto parse_with = [&](size_t at, auto value) {
    Buffer bad = Buffer::Allocate(good.size());
    std::memcpy(bad.data(), good.data(), good.size());
    std::memcpy(static_cast<char*>(bad.data()) + at, &value, sizeof(value));
    absl::Status status;
    CHECK(Parse(bad, &status).empty());
    return status;
  };
  const uint64_t huge = ~uint64_t{0};
  CHECK(absl::IsDataLoss(parse_with(offsetof(net::PacketPrefix, magic), uint32_t{1})));
  CHECK(absl::IsDataLoss(parse_with(offsetof(net::PacketPrefix, version), uint8_t{9})));
  CHECK(absl::IsDataLoss(parse_with(offsetof(net::PacketPrefix, kind), uint8_t{9})));
  for (uint64_t bytes :
       {uint64_t{0}, uint64_t{31}, uint64_t{good.size() - 1}, uint64_t{good.size() + 1}, huge}) {
    CHECK(absl::IsDataLoss(parse_with(offsetof(net::PacketPrefix, packet_bytes), bytes)));
  }
  // A header may only be taken for longer by what is padding anyway.
  for (uint64_t bytes : {uint64_t{good.size() - 32}, uint64_t{good.size()}, huge - 31, huge}) {
    CHECK(absl::IsDataLoss(parse_with(offsetof(net::PacketPrefix, header_bytes), bytes)));
  }
  for (uint32_t slices : {2u, 4u, 90u, 1u << 30, ~0u}) {
    CHECK(absl::IsDataLoss(parse_with(offsetof(net::PacketPrefix, slices), slices)));
  }
  for (uint64_t bytes : {uint64_t{601}, uint64_t{599}, huge, huge - 63}) {
    CHECK(absl::IsDataLoss(parse_with(sizeof(net::PacketPrefix) + 16, bytes)));
  }
  for (size_t cut = 0; cut < good.size(); ++cut) {
    absl::Status status;
    Parse(good.Slice(0, cut), &status);
    CHECK(absl::IsDataLoss(status));
  }
}

TEST_CASE("random damage to a batch never reads outside it", "[net]") {
  const Buffer good = Encode(
      {MakePacket(1, 16, {70, 0, 600}), MakePacket(2, 0, {5}), MakePacket(3, 300, {1, 2, 3})});
  std::mt19937 random(7);
  int damaged = 0;
  for (int round = 0; round < 20000; ++round) {
    Buffer bad = Buffer::Allocate(good.size());
    std::memcpy(bad.data(), good.data(), good.size());
    auto* bytes = static_cast<unsigned char*>(bad.data());
    for (unsigned i = 0; i <= random() % 4; ++i) {
      bytes[random() % (i % 2 == 0 ? 96 : good.size())] = static_cast<unsigned char>(random());
    }
    absl::Status status;
    for (const net::Packet& packet : Parse(bad, &status)) {
      for (const Buffer& slice : packet.message.payload) {
        REQUIRE(slice.data() >= bad.data());
        REQUIRE(static_cast<char*>(slice.data()) + slice.size() <=
                static_cast<char*>(bad.data()) + bad.size());
      }
    }
    if (!status.ok()) ++damaged;
  }
  CHECK(damaged > 1000);
}

TEST_CASE("addresses are read as people write them", "[net]") {
  for (const char* text : {"127.0.0.1:4321", "[::1]:0", "ps-0.ps.ns.svc:80", "localhost:65535"}) {
    INFO(text);
    const auto address = net::ParseHostPort(text);
    REQUIRE(address.ok());
    CHECK(net::FormatHostPort(*address) == text);
  }
  for (const char* text : {"", "host", "host:", ":80", "host:65536", "host:-1", "host:8o", "::1:80",
                           "unix:/x:1", "[]:1", "a b:1", "host:99999999999999999999"}) {
    INFO(text);
    const absl::Status status = net::ParseHostPort(text).status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK_THAT(std::string(status.message()), Catch::Contains(std::string("\"") + text + "\""));
  }
}

}  // namespace
}  // namespace coxswain::net_testing
