// A batch as it comes from a stream: the packets in it, a goodbye's reason, and what a frame of a
// step says.
#include <cstring>

#include "runtime/function/frame.h"
#include "runtime/net/wire_format.h"
#include "tests/fuzz/fuzz_target.h"

namespace coxswain {
namespace {

void Decode(const net::Message& message) {
  static_cast<void>(function::DecodeSegmentRequest(message));
  static_cast<void>(function::DecodeSegmentReply(message));
  static_cast<void>(function::DecodeClosureRequest(message));
  static_cast<void>(function::DecodeClosureReply(message));
}

}  // namespace
}  // namespace coxswain

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace coxswain;  // NOLINT
  fuzz::BoundMemory();
  if (size > (size_t{1} << 17)) return 0;
  Buffer batch = Buffer::Allocate(size);
  std::memcpy(batch.data(), data, size);
  static_cast<void>(net::ParsePackets(batch, [](net::Packet packet) {
    if (packet.kind == net::PacketKind::kGoodbye)
      static_cast<void>(net::GoodbyeReason(packet.message));
    Decode(packet.message);
    const auto parts = function::SplitMessages(std::move(packet.message));
    if (parts.ok()) {
      for (const net::Message& part : *parts) Decode(part);
    }
    return true;
  }));
  return 0;
}
