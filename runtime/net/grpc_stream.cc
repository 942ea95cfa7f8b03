// What both ends of a stream have (GrpcStream): writes, reads, the end. Then the end that connects,
// and the one that listens.
#include "runtime/net/grpc_stream.h"

#include <functional>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "runtime/base/status.h"
#include "runtime/net/grpc_codec.h"

namespace coxswain::net {
namespace {

// gRPC's length field has 32 bits.
static_assert(kMaxMessageBytes <= std::numeric_limits<uint32_t>::max());
// Messages that wait are written together up to this size: each write of gRPC costs some
// microseconds.
constexpr size_t kJoinBytes = 64 << 10;

// Runs `action` after `delay`, unless the alarm goes before. A delay of years is for ever.
void SetAlarm(grpc::Alarm& alarm, absl::Duration delay, std::function<void()> action) {
  if (delay > absl::Hours(24 * 365)) return;
  const gpr_timespec at =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                   gpr_time_from_nanos(absl::ToInt64Nanoseconds(delay), GPR_TIMESPAN));
  alarm.Set(at, [action = std::move(action)](bool fired) {
    if (fired) action();
  });
}

}  // namespace

void GrpcStream::Send(Message message) {
  const size_t bytes = PacketBytes(message);
  if (bytes > options_.max_message_bytes) {
    const std::shared_ptr<GrpcStream> self =
        shared_from_this();  // OnClosed may drop the connection
    Close(TooLarge(peer_, bytes, options_.max_message_bytes));
    return;
  }
  std::vector<Packet> batch;
  {
    absl::MutexLock lock(&mu_);
    if (closing_) return;
    if (writing_) {
      queue_.push_back({PacketKind::kMessage, std::move(message)});
      return;
    }
    writing_ = true;
  }
  batch.push_back({PacketKind::kMessage, std::move(message)});
  WriteBatch(std::move(batch));
}

void GrpcStream::Close(absl::Status reason) {
  std::vector<Packet> batch;
  {
    absl::MutexLock lock(&mu_);
    if (closing_) return;
    closing_ = true;
    reason_ = reason;
    queue_.push_back(GoodbyePacket(reason));
    if (!writing_) {
      writing_ = true;
      batch = TakeBatch();
    }
  }
  SetAlarm(linger_alarm_, options_.close_linger, [weak = weak_from_this()] {
    if (auto stream = weak.lock()) stream->Cancel();
  });
  if (!batch.empty()) WriteBatch(std::move(batch));
  inbox_.Close(std::move(reason));
}

void GrpcStream::Abort(absl::Status reason) {
  std::deque<Packet> dropped;
  {
    absl::MutexLock lock(&mu_);
    closing_ = true;
    dropped.swap(queue_);
    ++dropping_;
  }
  dropped.clear();
  {
    absl::MutexLock lock(&mu_);
    --dropping_;
  }
  inbox_.Close(WhyEnded(std::move(reason)));
  Cancel();
}

void GrpcStream::Cancel() {
  absl::MutexLock lock(&mu_);
  if (!released_) CancelOp();
}

bool GrpcStream::BeforeEnd(absl::FunctionRef<void()> action) {
  absl::MutexLock lock(&mu_);
  if (released_ || ended_) return false;
  action();
  return true;
}

bool GrpcStream::WaitDone(absl::Time deadline) {
  absl::MutexLock lock(&mu_);
  return mu_.AwaitWithDeadline(absl::Condition(&done_), deadline);
}

std::vector<Packet> GrpcStream::TakeBatch() {
  std::vector<Packet> batch;
  size_t bytes = 0;
  while (!queue_.empty()) {
    bytes = AlignUp(bytes) + PacketBytes(queue_.front().message);
    if (!batch.empty() && bytes > kJoinBytes) break;
    batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return batch;
}

void GrpcStream::WriteBatch(std::vector<Packet> batch) {
  const bool last = batch.back().kind == PacketKind::kGoodbye;
  out_ = EncodeBatch(std::move(batch));
  if (last) {
    StartLastWriteOp(&out_);
  } else {
    StartWriteOp(&out_);
  }
}

bool GrpcStream::TryEnd() {
  if (!dead_ || writing_ || ended_) return false;
  ended_ = true;
  return true;
}

bool GrpcStream::MarkDead() {
  std::deque<Packet> dropped;  // goes after the lock
  absl::MutexLock lock(&mu_);
  closing_ = true;
  dead_ = true;
  dropped.swap(queue_);
  return TryEnd();
}

void GrpcStream::NeverWrite() {
  absl::MutexLock lock(&mu_);
  closing_ = true;
  dead_ = true;
  ended_ = true;
}

void GrpcStream::HandleWrite(bool ok) {
  out_.Clear();
  std::vector<Packet> batch;
  std::deque<Packet> dropped;
  bool end = false;
  {
    absl::MutexLock lock(&mu_);
    if (!ok) {
      closing_ = true;
      dead_ = true;
      dropped.swap(queue_);
    }
    if (dead_ || queue_.empty()) {
      writing_ = false;
      end = TryEnd();
    } else {
      batch = TakeBatch();
    }
  }
  if (!batch.empty()) WriteBatch(std::move(batch));
  if (end) EndOp();
}

void GrpcStream::HandleRead(bool ok) {
  if (!ok) {
    if (MarkDead()) EndOp();
    return;
  }
  // After the close, what still comes is read and thrown away, so that the peer is not held up.
  if (!inbox_.closed() && !Deliver()) {
    if (MarkDead()) EndOp();
    Cancel();
    return;
  }
  StartReadOp();
}

bool GrpcStream::Deliver() {
  absl::StatusOr<Buffer> batch = GatherBatch(in_);
  in_.Clear();
  bool goodbye = false;
  absl::Status status = batch.status();
  if (status.ok()) {
    status = ParsePackets(*batch, [&](Packet packet) {
      if (packet.kind == PacketKind::kMessage) {
        inbox_.Push(std::move(packet.message));
        return true;
      }
      goodbye = true;
      inbox_.Close(WhyEnded(GoodbyeReason(packet.message)));
      return false;
    });
  }
  if (!status.ok()) Close(Annotate(status, absl::StrCat("from ", peer_)));
  return !goodbye;
}

absl::Status GrpcStream::WhyEnded(absl::Status otherwise) {
  absl::MutexLock lock(&mu_);
  return reason_.has_value() ? *reason_ : std::move(otherwise);
}

void GrpcStream::HandleDone(absl::Status lost) {
  const std::shared_ptr<GrpcStream> self = std::move(self_);
  std::deque<Packet> dropped;
  {
    absl::MutexLock lock(&mu_);
    dropped.swap(queue_);
    closing_ = true;
    released_ = true;
  }
  dropped.clear();
  inbox_.Close(WhyEnded(std::move(lost)));
  ReleaseOp();
  absl::MutexLock lock(&mu_);
  // Whoever waits for the end may count on what was queued to be gone, also where Abort, which is
  // none of gRPC's reactions, is at it.
  const auto dropped_all = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return dropping_ == 0; };
  mu_.Await(absl::Condition(&dropped_all));
  done_ = true;
}

// The call before the stream: what pass.h calls Greet. It keeps the stream until it is done.
class ClientStream::Greeting final
    : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
      public std::enable_shared_from_this<Greeting> {
 public:
  Greeting(ClientStream* stream, std::shared_ptr<const Secret> secret)
      : stream_(stream), request_(std::move(secret)) {}

  void Start(const std::shared_ptr<grpc::Channel>& channel) {
    self_ = shared_from_this();
    stream_kept_ = stream_->shared_from_this();
    context_.set_wait_for_ready(true);
    context_.AddMetadata(kGreetingKey, request_.greeting());
    grpc::GenericStub(channel).PrepareBidiStreamingCall(&context_, kGreetMethod, {}, this);
    StartCall();
  }
  void Cancel() { context_.TryCancel(); }

 private:
  // This object goes before the stream's call begins, for its context holds the channel. Were it
  // the last to do so, after the stream has told its transport that it is done, one of gRPC's
  // threads would end the channel and wait for itself, which aborts the process.
  void OnDone(const grpc::Status& status) override {
    std::shared_ptr<Greeting> self = std::move(self_);
    const std::shared_ptr<GrpcStream> kept = std::move(stream_kept_);
    ClientStream* const stream = stream_;
    const PassRequest request = request_;
    const auto& all = context_.GetServerTrailingMetadata();
    const auto it = all.find(kAnswerKey);
    const std::string answer =
        it == all.end() ? "" : std::string(it->second.data(), it->second.size());
    stream->ForgetGreeting();
    self = nullptr;
    stream->OnGreeted(status, answer, request);
  }

  ClientStream* const stream_;
  const PassRequest request_;
  grpc::ClientContext context_;
  std::shared_ptr<Greeting> self_;
  std::shared_ptr<GrpcStream> stream_kept_;
};

// A call that does not wait for a connection: its error says why there is none. It has a hold on
// the stream's call, and goes before that does, for the reason that a greeting has.
class ClientStream::Inquiry final
    : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
      public std::enable_shared_from_this<Inquiry> {
 public:
  Inquiry(ClientStream* stream, std::string message)
      : stream_(stream), message_(std::move(message)) {}

  void Prepare(const std::shared_ptr<grpc::Channel>& channel) {
    self_ = shared_from_this();
    stream_kept_ = stream_->shared_from_this();
    context_.set_wait_for_ready(false);
    context_.set_deadline(
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(1, GPR_TIMESPAN)));
    grpc::GenericStub(channel).PrepareBidiStreamingCall(&context_, kGreetMethod, {}, this);
  }
  void Start() { StartCall(); }
  void Cancel() { context_.TryCancel(); }

 private:
  void OnDone(const grpc::Status& status) override {
    std::shared_ptr<Inquiry> self = std::move(self_);
    const std::shared_ptr<GrpcStream> kept = std::move(stream_kept_);
    ClientStream* const stream = stream_;
    std::string message = std::move(message_);
    stream->ForgetInquiry();
    self = nullptr;
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
      absl::StrAppend(&message, ": ", status.error_message());
    }
    if (!stream->connected()) stream->Abort(absl::UnavailableError(message));
    stream->RemoveHold();
  }

  ClientStream* const stream_;
  std::string message_;
  grpc::ClientContext context_;
  std::shared_ptr<Inquiry> self_;
  std::shared_ptr<GrpcStream> stream_kept_;
};

void ClientStream::GiveUp(absl::Duration timeout) {
  std::string message =
      absl::StrCat("no answer from ", peer(), " within ", absl::FormatDuration(timeout),
                   options().tls == nullptr ? "" : " by TLS");
  Inquiry* inquiry = nullptr;  // keeps itself: a handle here could be the last one
  BeforeEnd([&] {
    const grpc_connectivity_state state = call_->channel->GetState(false);
    if (state != GRPC_CHANNEL_TRANSIENT_FAILURE && state != GRPC_CHANNEL_CONNECTING) return;
    AddHold();
    absl::MutexLock lock(&connected_mu_);
    inquiry_ = std::make_shared<Inquiry>(this, message);
    inquiry_->Prepare(call_->channel);
    inquiry = inquiry_.get();
  });
  if (inquiry == nullptr) {
    Abort(absl::UnavailableError(message));
  } else {
    inquiry->Start();
  }
}

void ClientStream::Start(std::shared_ptr<grpc::Channel> channel, absl::Duration timeout,
                         std::shared_ptr<ConnectionHandler> handler,
                         std::shared_ptr<const Secret> secret) {
  KeepUntilDone();
  inbox_.Open(std::move(handler));
  call_->channel = std::move(channel);
  std::shared_ptr<Greeting> greeting;
  if (secret != nullptr) {
    greeting = std::make_shared<Greeting>(this, std::move(secret));
    absl::MutexLock lock(&connected_mu_);
    greeting_ = greeting;
  }
  SetAlarm(connect_alarm_, timeout, [weak = weak_from_this(), this, timeout] {
    const std::shared_ptr<GrpcStream> stream = weak.lock();
    if (stream != nullptr && !connected()) GiveUp(timeout);
  });
  // A daemon that starts a little later is waited for: gRPC tries again until the timeout.
  call_->context.set_wait_for_ready(true);
  grpc::GenericStub(call_->channel)
      .PrepareBidiStreamingCall(&call_->context, kStreamMethod, {}, this);
  AddHold();
  StartRead(&in_);
  if (greeting == nullptr) {
    StartCall();
  } else {
    greeting->Start(call_->channel);
  }
}

void ClientStream::OnGreeted(const grpc::Status& status, const std::string& answer,
                             const PassRequest& request) {
  if (!status.ok()) {
    Abort(status.error_code() == grpc::StatusCode::UNIMPLEMENTED ? AsksForNoSecret(peer())
                                                                 : CannotConnect(status));
  } else if (request.Proves(answer)) {
    call_->context.AddMetadata(kPassKey, request.Pass(answer));
  } else {
    Close(request.Unproven(peer()));
    call_->context.AddMetadata(kPassKey, request.BadPass(answer));
  }
  StartCall();
}

void ClientStream::CancelOp() {
  call_->context.TryCancel();
  std::shared_ptr<Greeting> greeting;
  std::shared_ptr<Inquiry> inquiry;
  {
    absl::MutexLock lock(&connected_mu_);
    greeting = greeting_;
    inquiry = inquiry_;
  }
  if (greeting != nullptr) greeting->Cancel();
  if (inquiry != nullptr) inquiry->Cancel();
}

void ClientStream::Fail(absl::Status reason, std::shared_ptr<ConnectionHandler> handler) {
  KeepUntilDone();
  NeverWrite();
  inbox_.Close(reason);
  SetAlarm(connect_alarm_, absl::ZeroDuration(),
           [this, reason, handler = std::move(handler)]() mutable {
             inbox_.Open(std::move(handler));
             HandleDone(reason);
           });
}

void ClientStream::OnReadInitialMetadataDone(bool ok) {
  if (!ok) return;
  {
    absl::MutexLock lock(&connected_mu_);
    connected_ = true;
  }
  connect_alarm_.Cancel();
}

absl::Status ClientStream::CannotConnect(const grpc::Status& status) const {
  // A listener that asks for a secret; this process has none, or another.
  if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
    return absl::UnauthenticatedError(status.error_message());
  }
  std::string text =
      absl::StrCat(connected() ? "lost the connection to " : "cannot connect to ", peer(), ": ");
  if (status.ok()) {
    absl::StrAppend(&text, "the peer ended it");
  } else if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    absl::StrAppend(&text, "the peer is no listener of this kind");
  } else {
    absl::StrAppend(&text, status.error_message());
  }
  return absl::UnavailableError(text);
}

void ClientStream::OnDone(const grpc::Status& status) { HandleDone(CannotConnect(status)); }

std::string ReadablePeer(const std::string& peer) {
  absl::string_view text = peer;
  if (!absl::ConsumePrefix(&text, "ipv4:")) absl::ConsumePrefix(&text, "ipv6:");
  return absl::StrReplaceAll(text, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
}

ServerStream::ServerStream(grpc::GenericCallbackServerContext* context,
                           const TransportOptions& options)
    : GrpcStream(ReadablePeer(context->peer()), options), context_(context) {}

void ServerStream::Accept(const AcceptFunction& accept) {
  KeepUntilDone();
  StartSendInitialMetadata();  // tells the client that it is connected
  const auto connection = std::make_shared<GrpcConnection>(shared_from_this());
  std::shared_ptr<ConnectionHandler> handler = accept(connection);
  if (handler == nullptr) Close(absl::UnavailableError("the connection was refused"));
  inbox_.Open(std::move(handler));
  StartRead(&in_);
}

void ServerStream::Refuse() {
  KeepUntilDone();
  inbox_.Open(nullptr);
  Close(absl::UnavailableError("the listener ended"));
}

void ServerStream::OnDone() {
  HandleDone(absl::UnavailableError(absl::StrCat("lost the connection to ", peer())));
}

}  // namespace coxswain::net
