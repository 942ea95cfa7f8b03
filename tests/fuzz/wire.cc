// A batch as it comes from a stream: the packets in it, a goodbye's reason, and what a frame of a
// step says.
#include <cstring>

#include "runtime/function/frame.h"
#include "runtime/net/wire_format.h"
#include "tests/fuzz/fuzz_target.h"

namespace coxswain {
namespace {

void Decode(const Message& message) {
  static_cast<void>(DecodeSegmentRequest(message));
  static_cast<void>(DecodeSegmentReply(message));
  static_cast<void>(DecodeClosureRequest(message));
  static_cast<void>(DecodeClosureReply(message));
}

}  // namespace
}  // namespace coxswain

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace coxswain;  // NOLINT
  fuzz::BoundMemory();
  if (size > (size_t{1} << 17)) return 0;
  Buffer batch = Buffer::Allocate(size);
  std::memcpy(batch.data(), data, size);
  static_cast<void>(ParsePackets(batch, [](Packet packet) {
    if (packet.kind == PacketKind::kGoodbye) static_cast<void>(GoodbyeReason(packet.message));
    Decode(packet.message);
    const auto parts = SplitMessages(std::move(packet.message));
    if (parts.ok()) {
      for (const Message& part : *parts) Decode(part);
    }
    return true;
  }));
  return 0;
}
