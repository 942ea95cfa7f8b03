// Packing and reading headers (Writer, Reader), encoding of each message, joining, and decoding of
// each message.
#include "runtime/function/frame.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/net/message_type.h"
#include "runtime/tensor/limits.h"

namespace coxswain::function {
namespace {

// Bits that announce the fields of a synchronous step; they are zero for asynchronous closures. And
// one for rows in the memory of a GPU.
constexpr uint32_t kSyncSegment = uint32_t{1} << 31, kRowsOnGpu = uint32_t{1} << 30;
constexpr uint8_t kHasAhead = 1, kHasSync = 2;
constexpr uint8_t kMean = 1, kHasBackup = 2, kFree = 4, kEach = 8;

class Writer {
 public:
  explicit Writer(std::string* out) : out_(out) {}
  template <typename T>
  Writer& Put(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    out_->append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  Writer& PutString(absl::string_view text) {
    Put<uint32_t>(static_cast<uint32_t>(text.size()));
    out_->append(text.data(), text.size());
    return *this;
  }
  void PutTicket(const Ticket& ticket) {
    Put(static_cast<uint8_t>(ticket.part)).Put(ticket.epoch).Put(ticket.begin).Put(ticket.end);
  }
  void PutSync(const SyncStep& sync) {
    const int flags = (sync.mean ? kMean : 0) | (sync.backup > 0 ? kHasBackup : 0) |
                      (sync.free ? kFree : 0) | (sync.each ? kEach : 0);
    Put(sync.first).Put(sync.count).Put(sync.after).Put(static_cast<uint8_t>(flags));
    if (sync.backup > 0) Put(sync.backup);
  }
  void PutStatus(const absl::Status& status) {
    Put<int32_t>(static_cast<int32_t>(status.code()));
    if (status.ok()) return;
    PutString(status.message());
    uint32_t payloads = 0;
    status.ForEachPayload([&](absl::string_view, const absl::Cord&) { ++payloads; });
    Put(payloads);
    status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
      PutString(url);
      PutString(std::string(payload));
    });
  }
  void PutTensors(std::vector<Tensor>& tensors, std::vector<Buffer>* payload) {
    Put<uint32_t>(static_cast<uint32_t>(tensors.size()));
    payload->reserve(tensors.size());
    for (Tensor& t : tensors) {
      Put<uint8_t>(static_cast<uint8_t>(t.dtype()));
      Put<uint8_t>(static_cast<uint8_t>(t.rank()));
      for (int64_t d : t.shape().dims()) Put(d);
      const size_t bytes = t.bytes();
      payload->push_back(t.buffer().size() == bytes ? t.buffer() : t.buffer().Slice(0, bytes));
    }
  }

 private:
  std::string* out_;
};

class Reader {
 public:
  explicit Reader(absl::string_view in) : in_(in) {}
  template <typename T>
  T Get() {
    T value{};
    if (in_.size() < sizeof(T)) {
      torn_ = true;
      return value;
    }
    std::memcpy(&value, in_.data(), sizeof(T));
    in_.remove_prefix(sizeof(T));
    return value;
  }
  std::string GetString() {
    const uint32_t size = Get<uint32_t>();
    if (torn_ || size > in_.size()) {
      torn_ = true;
      return "";
    }
    std::string text(in_.substr(0, size));
    in_.remove_prefix(size);
    return text;
  }
  absl::Status GetTicket(Ticket* ticket) {
    const uint8_t part = Get<uint8_t>();
    if (part > static_cast<uint8_t>(Part::kTest)) {
      return absl::InvalidArgumentError(absl::StrCat("ticket names part ", part));
    }
    ticket->part = static_cast<Part>(part);
    ticket->epoch = Get<int64_t>();
    ticket->begin = Get<int64_t>();
    ticket->end = Get<int64_t>();
    return absl::OkStatus();
  }
  absl::Status GetSync(ClosureId closure, SyncStep* sync) {
    sync->first = Get<ClosureId>();
    sync->count = Get<uint32_t>();
    sync->after = Get<ClosureId>();
    const uint8_t flags = Get<uint8_t>();
    sync->mean = (flags & kMean) != 0;
    if ((flags & kHasBackup) != 0) sync->backup = Get<uint32_t>();
    sync->free = (flags & kFree) != 0;
    sync->each = (flags & kEach) != 0;
    if (torn_ || IsPossible(*sync, closure)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("closure ", closure, " is said to be of a step of ", sync->count,
                     " closures from ", sync->first, " on, after ", sync->after));
  }
  absl::Status GetStatus() {
    const int32_t code = Get<int32_t>();
    if (torn_ || code == 0) return absl::OkStatus();
    absl::Status status(static_cast<absl::StatusCode>(code), GetString());
    const uint32_t payloads = Get<uint32_t>();
    for (uint32_t i = 0; i < payloads && !torn_; ++i) {
      const std::string url = GetString();
      const std::string payload = GetString();
      if (!torn_ && !status.ok()) status.SetPayload(url, absl::Cord(payload));
    }
    return status;
  }
  absl::Status GetTensors(std::vector<Buffer>& payload, std::vector<Tensor>* tensors) {
    const uint32_t count = Get<uint32_t>();
    if (torn_ || count != payload.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("frame names ", count, " tensors and has ", payload.size(), " slices"));
    }
    tensors->reserve(count);
    for (uint32_t i = 0; i < count; ++i) {
      const uint8_t dtype = Get<uint8_t>(), rank = Get<uint8_t>();
      if (torn_ || dtype > static_cast<uint8_t>(DType::kBF16)) {
        return absl::InvalidArgumentError(absl::StrCat("frame: tensor ", i, " has dtype ", dtype));
      }
      Shape shape;
      for (int r = 0; r < rank; ++r) shape.Append(Get<int64_t>());
      if (torn_) return absl::InvalidArgumentError(absl::StrCat("frame: tensor ", i, " is torn"));
      if (dtype == 0 && rank == 0 && payload[i].empty()) {
        tensors->emplace_back();
        continue;
      }
      absl::StatusOr<Tensor> tensor =
          TensorFromBytes(static_cast<DType>(dtype), shape, std::move(payload[i]));
      if (!tensor.ok()) return Annotate(tensor.status(), absl::StrCat("frame: tensor ", i));
      tensors->push_back(*std::move(tensor));
    }
    return absl::OkStatus();
  }
  bool torn() const { return torn_; }
  absl::Status Finish() const {
    return torn_ || !in_.empty() ? absl::InvalidArgumentError("frame header is torn")
                                 : absl::OkStatus();
  }

 private:
  absl::string_view in_;
  bool torn_ = false;
};

net::Message NewMessage(net::MessageType type) {
  net::Message message;
  message.type = static_cast<uint16_t>(type);
  message.header.reserve(256);
  return message;
}

absl::Status WantType(const net::Message& message, net::MessageType type) {
  if (message.type == static_cast<uint16_t>(type)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("wanted a message of type ", static_cast<int>(type), ", found ", message.type));
}

}  // namespace

net::Message Encode(SegmentRequest r) {
  net::Message message = NewMessage(net::MessageType::kFrame);
  Writer w(&message.header);
  w.Put(r.session).Put(r.call).Put(r.closure).Put(r.plan).Put(r.attempt).Put(r.step);
  w.Put(r.segment | (r.sync ? kSyncSegment : 0) | (r.rows_on >= 0 ? kRowsOnGpu : 0)).Put(r.seed);
  if (r.rows_on >= 0) w.Put(static_cast<uint16_t>(r.rows_on));
  if (r.sync) w.PutSync(r.sync);
  w.PutTensors(r.tensors, &message.payload);
  return message;
}

net::Message Encode(SegmentReply r) {
  net::Message message = NewMessage(net::MessageType::kFrameReply);
  Writer w(&message.header);
  w.Put(r.call);
  w.PutStatus(r.status);
  w.PutTensors(r.tensors, &message.payload);
  return message;
}

net::Message Encode(ClosureRequest r) {
  net::Message message = NewMessage(net::MessageType::kRunClosure);
  Writer w(&message.header);
  w.Put(r.session).Put(r.closure).Put(r.plan).Put(r.attempt).Put(r.seed).Put(r.dataset);
  w.PutTicket(r.ticket);
  w.Put(r.steps).Put(r.first_step).Put(r.generation);
  const bool ahead = r.ahead.size() > 0;
  w.Put(static_cast<uint8_t>((ahead ? kHasAhead : 0) | (r.sync ? kHasSync : 0)));
  if (ahead) w.PutTicket(r.ahead);
  if (r.sync) w.PutSync(r.sync);
  w.PutTensors(r.arguments, &message.payload);
  return message;
}

net::Message Encode(ClosureReply r) {
  net::Message message = NewMessage(net::MessageType::kClosureDone);
  Writer w(&message.header);
  w.Put(r.session).Put(r.closure).Put(r.attempt).Put(r.steps_done);
  w.PutStatus(r.status);
  w.PutTensors(r.results, &message.payload);
  return message;
}

net::Message EncodeProgress(ClosureReply reply) {
  net::Message message = Encode(std::move(reply));
  message.type = static_cast<uint16_t>(net::MessageType::kClosureProgress);
  return message;
}

net::Message JoinMessages(net::MessageType type, std::vector<net::Message> parts) {
  net::Message joined = NewMessage(type);
  Writer w(&joined.header);
  w.Put(static_cast<uint32_t>(parts.size()));
  for (net::Message& part : parts) {
    w.Put(part.type).Put(static_cast<uint32_t>(part.payload.size())).PutString(part.header);
    for (Buffer& slice : part.payload) joined.payload.push_back(std::move(slice));
  }
  return joined;
}

std::vector<net::Message> JoinMessagesWithin(size_t most, net::MessageType type,
                                             std::vector<net::Message> parts) {
  constexpr size_t kAlignment = 64;  // of slices: the most by which a part may grow
  constexpr size_t kOfJoined = 128;  // its own prefix and count
  size_t together = kOfJoined;
  for (const net::Message& part : parts) together += part.wire_bytes() + kAlignment;
  std::vector<net::Message> all;
  if (together <= most && parts.size() > 1) {  // nearly always
    all.push_back(JoinMessages(type, std::move(parts)));
    return all;
  }
  std::vector<net::Message> group;
  size_t bytes = kOfJoined;
  const auto end_group = [&] {
    if (group.empty()) return;
    all.push_back(group.size() == 1 ? std::move(group[0]) : JoinMessages(type, std::move(group)));
    group.clear();
    bytes = kOfJoined;
  };
  for (net::Message& part : parts) {
    const size_t size = part.wire_bytes() + kAlignment;
    if (size > most - std::min(most, bytes)) end_group();
    bytes += size;
    group.push_back(std::move(part));
  }
  end_group();
  return all;
}

absl::Status TooLargeToSend(absl::string_view what, size_t bytes, size_t most,
                            const std::string& task, Incarnation incarnation) {
  return WithDetail(absl::ResourceExhaustedError(absl::StrCat(
                        what, " has ", bytes, " bytes, and at most ", most,
                        " can travel at once; smaller batches and smaller shards make it smaller")),
                    {ErrorCause::kApplication, false, task, incarnation});
}

absl::StatusOr<std::vector<net::Message>> SplitMessages(net::Message joined) {
  Reader in(joined.header);
  const uint32_t count = in.Get<uint32_t>();
  std::vector<net::Message> parts;
  size_t next = 0;
  for (uint32_t i = 0; i < count && !in.torn(); ++i) {
    net::Message part;
    part.type = in.Get<uint16_t>();
    const uint32_t slices = in.Get<uint32_t>();
    part.header = in.GetString();
    if (in.torn() || slices > joined.payload.size() - next) break;
    for (uint32_t s = 0; s < slices; ++s) part.payload.push_back(std::move(joined.payload[next++]));
    parts.push_back(std::move(part));
  }
  RETURN_IF_ERROR(in.Finish());
  if (parts.size() != count || next != joined.payload.size()) {
    return absl::InvalidArgumentError(absl::StrCat("a frame names ", count, " parts and has ",
                                                   parts.size(), " with ", next, " of ",
                                                   joined.payload.size(), " slices"));
  }
  return parts;
}

absl::StatusOr<SegmentRequest> DecodeSegmentRequest(net::Message message) {
  RETURN_IF_ERROR(WantType(message, net::MessageType::kFrame));
  Reader in(message.header);
  SegmentRequest r;
  r.session = in.Get<SessionId>();
  r.call = in.Get<uint64_t>();
  r.closure = in.Get<ClosureId>();
  r.plan = in.Get<PlanId>();
  r.attempt = in.Get<uint32_t>();
  r.step = in.Get<uint32_t>();
  r.segment = in.Get<uint32_t>();
  r.seed = in.Get<uint64_t>();
  if ((r.segment & kRowsOnGpu) != 0) {
    r.segment &= ~kRowsOnGpu;
    r.rows_on = in.Get<uint16_t>();
  }
  if ((r.segment & kSyncSegment) != 0) {
    r.segment &= ~kSyncSegment;
    RETURN_IF_ERROR(in.GetSync(r.closure, &r.sync));
  }
  RETURN_IF_ERROR(in.GetTensors(message.payload, &r.tensors));
  RETURN_IF_ERROR(in.Finish());
  return r;
}

absl::StatusOr<SegmentReply> DecodeSegmentReply(net::Message message) {
  RETURN_IF_ERROR(WantType(message, net::MessageType::kFrameReply));
  Reader in(message.header);
  SegmentReply r;
  r.call = in.Get<uint64_t>();
  r.status = in.GetStatus();
  RETURN_IF_ERROR(in.GetTensors(message.payload, &r.tensors));
  RETURN_IF_ERROR(in.Finish());
  return r;
}

absl::StatusOr<ClosureRequest> DecodeClosureRequest(net::Message message) {
  RETURN_IF_ERROR(WantType(message, net::MessageType::kRunClosure));
  Reader in(message.header);
  ClosureRequest r;
  r.session = in.Get<SessionId>();
  r.closure = in.Get<ClosureId>();
  r.plan = in.Get<PlanId>();
  r.attempt = in.Get<uint32_t>();
  r.seed = in.Get<uint64_t>();
  r.dataset = in.Get<DatasetId>();
  RETURN_IF_ERROR(in.GetTicket(&r.ticket));
  r.steps = in.Get<uint32_t>();
  r.first_step = in.Get<uint32_t>();
  r.generation = in.Get<Generation>();
  const uint8_t has = in.Get<uint8_t>();
  if ((has & kHasAhead) != 0) RETURN_IF_ERROR(in.GetTicket(&r.ahead));
  if ((has & kHasSync) != 0) RETURN_IF_ERROR(in.GetSync(r.closure, &r.sync));
  RETURN_IF_ERROR(in.GetTensors(message.payload, &r.arguments));
  RETURN_IF_ERROR(in.Finish());
  return r;
}

absl::StatusOr<ClosureReply> DecodeClosureReply(net::Message message) {
  if (message.type != static_cast<uint16_t>(net::MessageType::kClosureProgress)) {
    RETURN_IF_ERROR(WantType(message, net::MessageType::kClosureDone));
  }
  Reader in(message.header);
  ClosureReply r;
  r.session = in.Get<SessionId>();
  r.closure = in.Get<ClosureId>();
  r.attempt = in.Get<uint32_t>();
  r.steps_done = in.Get<uint32_t>();
  r.status = in.GetStatus();
  RETURN_IF_ERROR(in.GetTensors(message.payload, &r.results));
  RETURN_IF_ERROR(in.Finish());
  return r;
}

}  // namespace coxswain::function
