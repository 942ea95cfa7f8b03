// One connection over gRPC: a bidirectional stream of byte buffers, seen from either end.
//
// GrpcStream holds what both ends share; ClientStream and ServerStream join it to gRPC's reactors.
// Its life: gRPC uses a stream until OnDone, so the stream keeps itself until then. The user's side
// ends earlier: OnClosed comes as soon as either end closes, and the stream goes on in the
// background to bring its goodbye to the peer, at most for the linger time.
//
// gRPC's rules that shape it: one write may be outstanding; a client may start operations outside
// of its reactions only while it has a hold; a server must finish exactly once and start nothing
// after. So the stream is "ended" (hold removed, or finished) when it is dead and no write is
// outstanding.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/alarm.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "runtime/net/inbox.h"
#include "runtime/net/pass.h"
#include "runtime/net/secret.h"
#include "runtime/net/transport.h"
#include "runtime/net/wire_format.h"

namespace coxswain::net {

// gRPC cannot end a stream while a write to its socket is under way, not even a cancelled stream.
// When the peer takes no bytes for so long, the kernel ends the TCP connection and so the write.
constexpr absl::Duration kStuckPeerTimeout = absl::Seconds(20);

inline constexpr char kStreamMethod[] = "/coxswain.Transport/Connect";
// Where there is a secret; see pass.h.
inline constexpr char kGreetMethod[] = "/coxswain.Transport/Greet";
inline constexpr char kGreetingKey[] = "coxswain-greeting-bin";
inline constexpr char kAnswerKey[] = "coxswain-answer-bin";
inline constexpr char kPassKey[] = "coxswain-pass-bin";

// "ipv4:127.0.0.1:4321" and "ipv6:%5B::1%5D:4321" as people write them.
std::string ReadablePeer(const std::string& peer);

// Thread-safe.
class GrpcStream : public std::enable_shared_from_this<GrpcStream> {
 public:
  GrpcStream(std::string peer, const TransportOptions& options)
      : peer_(std::move(peer)), options_(options) {}
  virtual ~GrpcStream() = default;
  GrpcStream(const GrpcStream&) = delete;
  GrpcStream& operator=(const GrpcStream&) = delete;

  void Send(Message message);
  void Close(absl::Status reason);
  const std::string& peer() const { return peer_; }
  size_t max_message_bytes() const { return options_.max_message_bytes; }

  // Blocks until OnClosed returned. Not from a handler of this stream.
  void WaitClosed() { inbox_.WaitDone(); }
  // Blocks until gRPC has let go of it and it of gRPC, at most until `deadline`; whether that came.
  // It comes soon after Close and the linger time, unless the peer is stuck: see kStuckPeerTimeout.
  bool WaitDone(absl::Time deadline);

 protected:
  // What the two ends do with their reactors. None is called under the lock but CancelOp.
  virtual void StartReadOp() = 0;
  virtual void StartWriteOp(const grpc::ByteBuffer* bytes) = 0;
  // Writes what ends with the goodbye. A server finishes with it, and HandleWrite is not called.
  virtual void StartLastWriteOp(const grpc::ByteBuffer* bytes) = 0;
  virtual void EndOp() = 0;
  // Makes all operations fail soon. Only before ReleaseOp.
  virtual void CancelOp() = 0;
  // Lets go of what is gRPC's, when it is done.
  virtual void ReleaseOp() = 0;

  // gRPC's reactions.
  void HandleRead(bool ok);
  void HandleWrite(bool ok);
  void HandleDone(absl::Status lost);

  void NeverWrite() ABSL_LOCKS_EXCLUDED(mu_);
  void KeepUntilDone() { self_ = shared_from_this(); }
  // Tells the handler, drops what is queued and makes gRPC let go, without a goodbye.
  void Abort(absl::Status reason);
  void Cancel() ABSL_LOCKS_EXCLUDED(mu_);
  // Calls `action` under the lock, unless the end has come or is on its way; whether it did.
  bool BeforeEnd(absl::FunctionRef<void()> action) ABSL_LOCKS_EXCLUDED(mu_);
  const TransportOptions& options() const { return options_; }

  Inbox inbox_;
  grpc::ByteBuffer in_;

 private:
  std::vector<Packet> TakeBatch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // By whoever set writing_.
  void WriteBatch(std::vector<Packet> batch) ABSL_LOCKS_EXCLUDED(mu_);
  // No more operations can succeed. Returns whether the caller must call EndOp.
  bool MarkDead() ABSL_LOCKS_EXCLUDED(mu_);
  bool TryEnd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The reason of this side's Close, where there was one that has not come to tell the handler yet;
  // the peer may have answered its goodbye already.
  absl::Status WhyEnded(absl::Status otherwise) ABSL_LOCKS_EXCLUDED(mu_);
  // Hands out what was read. False: it ended with the peer's goodbye.
  bool Deliver();

  const std::string peer_;
  const TransportOptions options_;
  std::shared_ptr<GrpcStream> self_;
  grpc::Alarm linger_alarm_;
  grpc::ByteBuffer out_;  // of the one that set writing_

  absl::Mutex mu_;
  std::deque<Packet> queue_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;  // a write is outstanding or about to start
  bool closing_ ABSL_GUARDED_BY(mu_) = false;  // nothing more may be queued
  std::optional<absl::Status> reason_ ABSL_GUARDED_BY(mu_);  // of the Close on this side
  bool dead_ ABSL_GUARDED_BY(mu_) = false;                   // nothing more can be written
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  int dropping_ ABSL_GUARDED_BY(mu_) = 0;  // calls of Abort that let go of what was queued
  bool released_ ABSL_GUARDED_BY(mu_) = false;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
};

class ClientStream final : public GrpcStream,
                           public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  ClientStream(std::string address, const TransportOptions& options)
      : GrpcStream(std::move(address), options) {}

  // Starts the call. When the peer has not answered after `timeout`, the stream closes. With a
  // secret it greets first, and closes when the peer does not know it.
  void Start(std::shared_ptr<grpc::Channel> channel, absl::Duration timeout,
             std::shared_ptr<ConnectionHandler> handler, std::shared_ptr<const Secret> secret);
  // The other two are instead of Start. OnClosed(reason) comes soon, on another thread:
  void Fail(absl::Status reason, std::shared_ptr<ConnectionHandler> handler);
  // Nothing ever comes.
  void StayUnstarted() { NeverWrite(); }

 private:
  void StartReadOp() override { StartRead(&in_); }
  void StartWriteOp(const grpc::ByteBuffer* bytes) override { StartWrite(bytes); }
  void StartLastWriteOp(const grpc::ByteBuffer* bytes) override { StartWrite(bytes); }
  void EndOp() override { RemoveHold(); }
  void CancelOp() override;
  void ReleaseOp() override { call_.reset(); }

  class Greeting;
  class Inquiry;
  // Nobody has answered: aborts, with why there is no connection if that is known.
  void GiveUp(absl::Duration timeout);
  // The greeting, or inquiry, is to be asked to end no more.
  void ForgetGreeting() {
    absl::MutexLock lock(&connected_mu_);
    greeting_ = nullptr;
  }
  void ForgetInquiry() {
    absl::MutexLock lock(&connected_mu_);
    inquiry_ = nullptr;
  }
  // The greeting has ended. The call is started in any case, for gRPC to end it.
  void OnGreeted(const grpc::Status& status, const std::string& answer, const PassRequest& request);
  absl::Status CannotConnect(const grpc::Status& status) const;

  void OnReadInitialMetadataDone(bool ok) override;
  void OnReadDone(bool ok) override { HandleRead(ok); }
  void OnWriteDone(bool ok) override { HandleWrite(ok); }
  void OnDone(const grpc::Status& status) override;

  bool connected() const {
    absl::MutexLock lock(&connected_mu_);
    return connected_;
  }

  struct Call {
    std::shared_ptr<grpc::Channel> channel;
    grpc::ClientContext context;
  };
  std::unique_ptr<Call> call_ = std::make_unique<Call>();
  grpc::Alarm connect_alarm_;
  mutable absl::Mutex connected_mu_;
  bool connected_ ABSL_GUARDED_BY(connected_mu_) = false;
  // While they are under way.
  std::shared_ptr<Greeting> greeting_ ABSL_GUARDED_BY(connected_mu_);
  std::shared_ptr<Inquiry> inquiry_ ABSL_GUARDED_BY(connected_mu_);
};

class ServerStream final : public GrpcStream, public grpc::ServerGenericBidiReactor {
 public:
  ServerStream(grpc::GenericCallbackServerContext* context, const TransportOptions& options);

  // One of the two, before the reactor is given to gRPC.
  void Accept(const AcceptFunction& accept);
  void Refuse();

 private:
  void StartReadOp() override { StartRead(&in_); }
  void StartWriteOp(const grpc::ByteBuffer* bytes) override { StartWrite(bytes); }
  void StartLastWriteOp(const grpc::ByteBuffer* bytes) override {
    StartWriteAndFinish(bytes, grpc::WriteOptions(), grpc::Status::OK);
  }
  void EndOp() override { Finish(grpc::Status::OK); }
  void CancelOp() override { context_->TryCancel(); }
  void ReleaseOp() override {}

  void OnReadDone(bool ok) override { HandleRead(ok); }
  void OnWriteDone(bool ok) override { HandleWrite(ok); }
  void OnDone() override;

  grpc::GenericCallbackServerContext* const context_;  // gRPC's, until OnDone
};

// The handle that users hold: closes the stream when it goes.
class GrpcConnection final : public Connection {
 public:
  explicit GrpcConnection(std::shared_ptr<GrpcStream> stream) : stream_(std::move(stream)) {}
  ~GrpcConnection() override { stream_->Close(absl::OkStatus()); }

  void Send(Message message) override { stream_->Send(std::move(message)); }
  // The handler that is called may drop this object: the stream is held here.
  void Close(absl::Status reason) override {
    const std::shared_ptr<GrpcStream> stream = stream_;
    stream->Close(std::move(reason));
  }
  std::string peer() const override { return stream_->peer(); }
  size_t max_message_bytes() const override { return stream_->max_message_bytes(); }

 private:
  const std::shared_ptr<GrpcStream> stream_;
};

}  // namespace coxswain::net
