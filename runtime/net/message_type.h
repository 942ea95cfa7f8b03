// The kinds of messages. Control messages carry a protobuf of protos/control.proto as their header;
// kFrame and kFrameReply carry a frame (runtime/function/frame.h).
#pragma once

#include <cstdint>

namespace coxswain {

enum class MessageType : uint16_t {
  kHello = 1,           // coordinator or worker -> daemon: first on every connection
  kHelloReply = 2,
  kPing = 3,
  kPong = 4,
  kRegisterPlan = 10,   // coordinator -> worker, PS
  kCreateShards = 11,   // coordinator -> PS
  kRegisterDataset = 12,
  kRunClosure = 13,
  kCancelClosure = 14,
  kReadShard = 15,
  kWriteShard = 16,
  kEndSession = 17,
  kStatus = 18,
  kReply = 30,          // to 10..18, by request id
  kClosureDone = 31,
  kFrame = 40,          // worker -> PS: one segment of a step
  kFrameReply = 41,
};

}  // namespace coxswain
