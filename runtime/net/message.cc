// How large a message is. Of the runtime's library, not of the transports': who makes messages
// needs to know it without them.
#include "runtime/net/transport.h"
#include "runtime/net/wire_format.h"

namespace coxswain::net {

size_t Message::payload_bytes() const {
  size_t bytes = 0;
  for (const Buffer& slice : payload) bytes += slice.size();
  return bytes;
}

size_t Message::wire_bytes() const { return PacketBytes(*this); }

size_t PacketHeadBytes(const Message& message) {
  return sizeof(PacketPrefix) + message.payload.size() * sizeof(uint64_t) + message.header.size();
}

size_t PacketBytes(const Message& message) {
  size_t at = PacketHeadBytes(message);
  for (const Buffer& slice : message.payload) at = AlignUp(at) + slice.size();
  return at;
}

}  // namespace coxswain::net
