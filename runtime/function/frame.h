// What travels on the streams of a step: packed little-endian headers, and tensors as payload
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
  uint64_t call = 0;  // the sender's number for the reply
  ClosureId closure = 0;
  PlanId plan = 0;
  uint32_t attempt = 0;
  uint32_t step = 0;
  uint32_t segment = 0;
  uint64_t seed = 0;
  SyncStep sync;  // that the closure belongs to, if to any
  std::vector<Tensor> tensors;

  // In place of a segment, of a closure of a synchronous step: every PS holds all that this closure
  // contributes to its step.
  static constexpr uint32_t kHeldEverywhere = 0x7fffffff;
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
  // Of the same data set: where the worker goes on when it is through with what lies near this
  // ticket's examples (data::Dataset::GroupOf). Empty: nobody says.
  Ticket ahead;
  uint32_t steps = 1;       // the number of equal steps into which the ticket's examples are cut
  uint32_t first_step = 0;  // those before were applied everywhere by an earlier attempt
  // Of the cluster's layout when it was sent: a closure from before a recovery must not run after.
  Generation generation = 0;
  SyncStep sync;  // that it belongs to, if to any
  std::vector<Tensor> arguments;
};

// Worker -> coordinator: the closure is over (kClosureDone), or as a note of how far a packed one
// is (kClosureProgress, without results).
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

// Several messages as one of `type`, and back; what travels to one PS at the same time is one
// frame. Errors: InvalidArgument for a message that is torn.
net::Message JoinMessages(net::MessageType type, std::vector<net::Message> parts);
absl::StatusOr<std::vector<net::Message>> SplitMessages(net::Message joined);
// The same in as many messages as it takes for none to be larger than `most` (wire_bytes), in
// order. A part that would be the only one goes as it is.
std::vector<net::Message> JoinMessagesWithin(size_t most, net::MessageType type,
                                             std::vector<net::Message> parts);

// What is too large to travel is so on every attempt: ResourceExhausted with cause kApplication,
// not retryable. `what`: "the frame to /job:ps/task:2".
absl::Status TooLargeToSend(absl::string_view what, size_t bytes, size_t most,
                            const std::string& task, Incarnation incarnation);

// Errors of all: InvalidArgument for a message that is torn or of another kind.
absl::StatusOr<SegmentRequest> DecodeSegmentRequest(net::Message message);
absl::StatusOr<SegmentReply> DecodeSegmentReply(net::Message message);
absl::StatusOr<ClosureRequest> DecodeClosureRequest(net::Message message);
// Both kinds.
absl::StatusOr<ClosureReply> DecodeClosureReply(net::Message message);

}  // namespace coxswain::function
