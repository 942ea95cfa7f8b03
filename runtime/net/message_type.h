// The kinds of messages. Those below 32 carry a protobuf of protos/control.proto as their header,
// the others a packed header of runtime/function/frame.h.
#pragma once

#include <cstdint>

namespace coxswain::net {

enum class MessageType : uint16_t {
  kHello = 1,         // first on every connection: HelloRequest
  kHelloReply = 2,    // HelloReply
  kPing = 3,          // coordinator -> daemon: PingRequest
  kPong = 4,          // PongReply
  kControl = 5,       // coordinator -> daemon: ControlRequest (+ tensor payload)
  kControlReply = 6,  // ControlReply (+ tensor payload)
  // What comes before all others where there is a secret; see secret_transport.h. No protobufs.
  kAuthHello = 8,
  kAuthChallenge = 9,
  kAuthProof = 10,
  kRunClosure = 32,       // coordinator -> worker
  kClosureDone = 33,      // worker -> coordinator
  kClosureProgress = 34,  // worker -> coordinator: steps of a packed closure that are done
  kFrame = 40,            // worker -> PS: one segment of a step
  kFrameReply = 41,       // PS -> worker
  kFrames = 42,           // several kFrame in one, answered by one kFrameReplies
  kFrameReplies = 43,
};

}  // namespace coxswain::net
