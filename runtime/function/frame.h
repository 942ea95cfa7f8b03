// The messages on the streams of a step: packed little-endian headers, and tensors as payload
// slices.
//
// A list of tensors is a table of (dtype, rank, dimensions) in the header and one payload slice
// each. Reading trusts nothing: every length is checked against the message.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coxswain/tensor.h"
#include "runtime/base/ids.h"
#include "runtime/base/session_id.h"
#include "runtime/base/sync_step.h"
#include "runtime/data/ticket.h"
#include "runtime/net/message_type.h"
#include "runtime/net/transport.h"

namespace coxswain::function {

// Worker -> PS: run segment `segment` of plan `plan` for step `step` of closure `closure`.
struct SegmentRequest {
  SessionId session = 0;
  uint64_t call = 0;  // chosen by the sender, repeated in the reply
  ClosureId closure = 0;
  PlanId plan = 0;
  uint32_t attempt = 0;
  uint32_t step = 0;
  uint32_t segment = 0;
  uint64_t seed = 0;
  SyncStep sync;  // that the closure belongs to, if to any
  // Only in one process: the GPU in whose memory rows may be in the reply; -1: in none.
  int rows_on = -1;
  std::vector<Tensor> tensors;

  // In place of a segment number, for a closure of a synchronous step: every PS holds all gradients
  // of this closure for its step.
  static constexpr uint32_t kHeldEverywhere = 0x3fffffff;
};

// PS -> worker.
struct SegmentReply {
  uint64_t call = 0;
  absl::Status status;
  std::vector<Tensor> tensors;
};

// Coordinator -> worker: run a closure.
struct ClosureRequest {
  SessionId session = 0;
  ClosureId closure = 0;
  PlanId plan = 0;
  uint32_t attempt = 0;
  uint64_t seed = 0;
  DatasetId dataset = 0;  // 0: no ticket
  Ticket ticket;
  // A ticket of the same data set: where the worker will go on after the examples near this
  // ticket's (data::Dataset::GroupOf). Empty: unknown.
  Ticket ahead;
  uint32_t steps = 1;       // the number of equal steps into which the ticket's examples are cut
  uint32_t first_step = 0;  // earlier steps were applied on all shards by an earlier attempt
  // The generation when the request was sent: a closure from before a recovery must not run after
  // it.
  Generation generation = 0;
  SyncStep sync;  // that it belongs to, if to any
  std::vector<Tensor> arguments;
};

// Worker -> coordinator: the closure is over (kClosureDone), or the progress of a packed closure
// (kClosureProgress, without results).
struct ClosureReply {
  SessionId session = 0;
  ClosureId closure = 0;
  uint32_t attempt = 0;
  uint32_t steps_done = 0;
  absl::Status status;
  std::vector<Tensor> results;
};

net::Message Encode(SegmentRequest request);
net::Message Encode(SegmentReply reply);
net::Message Encode(ClosureRequest request);
net::Message Encode(ClosureReply reply);
net::Message EncodeProgress(ClosureReply reply);  // as kClosureProgress

// Joins several messages into one of `type`, and splits it again: messages to one PS at the same
// time share one frame. Errors: InvalidArgument for a malformed message.
net::Message JoinMessages(net::MessageType type, std::vector<net::Message> parts);
absl::StatusOr<std::vector<net::Message>> SplitMessages(net::Message joined);
// The same with as many messages as are needed for none to be larger than `most` (wire_bytes), in
// order. A part that would be alone in a message is not wrapped.
std::vector<net::Message> JoinMessagesWithin(size_t most, net::MessageType type,
                                             std::vector<net::Message> parts);

// The error for a message that is too large to send. It would be so on every attempt:
// ResourceExhausted with cause kApplication, not retryable. `what`: "the frame to /job:ps/task:2".
absl::Status TooLargeToSend(absl::string_view what, size_t bytes, size_t most,
                            const std::string& task, Incarnation incarnation);

// Errors of all decoders: InvalidArgument for a message that is malformed or of another kind.
absl::StatusOr<SegmentRequest> DecodeSegmentRequest(net::Message message);
absl::StatusOr<SegmentReply> DecodeSegmentReply(net::Message message);
absl::StatusOr<ClosureRequest> DecodeClosureRequest(net::Message message);
// Decodes both kinds.
absl::StatusOr<ClosureReply> DecodeClosureReply(net::Message message);

}  // namespace coxswain::function
