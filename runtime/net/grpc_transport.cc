// The transport over TCP: makes gRPC channels and servers and joins them to streams
// (grpc_stream.h).
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "grpc/support/log.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/support/channel_arguments.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/net/address.h"
#include "runtime/net/grpc_door.h"
#include "runtime/net/grpc_stream.h"
#include "runtime/net/grpc_threads.h"
#include "runtime/net/grpc_tls.h"
#include "runtime/net/pass.h"
#include "runtime/net/transport.h"
#include "runtime/net/weak_list.h"

namespace coxswain::net {
namespace {

// How long the ends of transports and listeners wait for gRPC.
constexpr absl::Duration kGrace = absl::Seconds(1);

// Who has not got through TLS' handshake by then never will.
constexpr absl::Duration kHandshakeTimeout = absl::Seconds(5);
constexpr int kMostOfAttemptMs = 5000;  // of whoever connects

// Of one TCP connection to a listener: a greeting, and the stream.
constexpr int kMostStreams = 2;

// What both ends of a TCP connection are set to.
void SetConnectionArguments(absl::FunctionRef<void(const char*, int)> set) {
  // Messages of any size. The window is fixed at what a fast network has under way: probing for it
  // cost a third of the throughput and gained nothing.
  set(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, -1);
  set(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1);
  // Nobody of ours compresses; unpacked, a megabyte of a stranger's would be a gigabyte here.
  set(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  set(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  set(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 4 << 20);
  // gRPC sets the kernel's limit (TCP_USER_TIMEOUT) where keepalive is on. The keepalive itself, a
  // ping of an idle connection, is the business of the leases above: it is put off for ever.
  set(GRPC_ARG_KEEPALIVE_TIME_MS, std::numeric_limits<int>::max() - 1);
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(kStuckPeerTimeout / absl::Milliseconds(1)));
}

// The streams of one listener or transport. Thread-safe.
class StreamSet {
 public:
  // False after CloseAll.
  bool Add(const std::shared_ptr<GrpcStream>& stream) {
    absl::MutexLock lock(&mu_);
    if (!closed_) streams_.Add(stream);
    return !closed_;
  }

  // Closes all, waits until no handler is running, and returns those that gRPC may still use.
  std::vector<std::shared_ptr<GrpcStream>> CloseAll(const absl::Status& reason) {
    std::vector<std::shared_ptr<GrpcStream>> streams;
    {
      absl::MutexLock lock(&mu_);
      closed_ = true;
      streams = streams_.Live();
    }
    for (const auto& stream : streams) stream->Close(reason);
    for (const auto& stream : streams) stream->WaitClosed();
    return streams;
  }

 private:
  absl::Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  WeakList<GrpcStream> streams_ ABSL_GUARDED_BY(mu_);
};

// Ends a call with an answer, or why there is none, and reads nothing.
class LastWord final : public grpc::ServerGenericBidiReactor {
 public:
  explicit LastWord(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

// The server behind a listener, which may outlive it while gRPC is stuck.
class StreamServer final : private grpc::CallbackGenericService {
 public:
  // `secret` may be null.
  StreamServer(AcceptFunction accept, TransportOptions options,
               std::shared_ptr<const Secret> secret)
      : accept_(std::move(accept)), options_(options) {
    if (secret != nullptr) desk_ = std::make_unique<PassDesk>(std::move(secret));
  }

  absl::Status Start(HostPort address, StrangerLimits limits) {
    limits.most = std::min(limits.most, MostStrangersOfThisProcess());
    ASSIGN_OR_RETURN(std::shared_ptr<Poller> poller, Poller::Make());
    door_ = std::make_shared<GrpcDoor>(std::move(poller), desk_ == nullptr ? nullptr : &limits);
    RETURN_IF_ERROR(door_->Bind(&address, kStuckPeerTimeout));
    address_ = FormatHostPort(address);
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(this);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostStreams);
    SetConnectionArguments(
        [&](const char* name, int value) { builder.AddChannelArgument(name, value); });
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                               static_cast<int>(kHandshakeTimeout / absl::Milliseconds(1)));
    door_->AddTo(builder, ListenerCredentials(options_.tls.get()));
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) {
      return absl::UnavailableError(absl::StrCat("cannot listen at ", address_));
    }
    return door_->Open(address_);
  }

  // Stops listening, closes the streams and waits until no handler is running.
  void CloseStreams() {
    door_->ShutDown();
    streams_.CloseAll(absl::UnavailableError(absl::StrCat("the listener at ", address_, " ended")));
  }

  // Returns when gRPC has let go of all streams. They have the linger time for their goodbyes: a
  // server that is shut down without a deadline cancels them instead.
  void Shutdown() { server_->Shutdown(absl::ToChronoTime(absl::Now() + options_.close_linger)); }

  absl::Duration close_linger() const { return options_.close_linger; }

  const std::string& address() const { return address_; }

 private:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    if (desk_ != nullptr && context->method() == kGreetMethod) return Greet(context);
    if (context->method() != kStreamMethod) {
      return grpc::CallbackGenericService::CreateReactor(context);
    }
    if (desk_ != nullptr) {
      const std::string peer = ReadablePeer(context->peer());
      const absl::Status taken = desk_->Take(Metadata(context, kPassKey), SinceBoot());
      if (!taken.ok()) {
        complaints_.Say(peer, taken.message());
        return new LastWord(ToGrpc(taken));
      }
      door_->Admit(peer);
    }
    auto stream = std::make_shared<ServerStream>(context, options_);
    if (streams_.Add(stream)) {
      stream->Accept(accept_);
    } else {
      stream->Refuse();
    }
    return stream.get();  // which keeps itself until gRPC is done with it
  }

  grpc::ServerGenericBidiReactor* Greet(grpc::GenericCallbackServerContext* context) {
    const auto answer = desk_->Answer(Metadata(context, kGreetingKey), SinceBoot());
    if (answer.ok()) context->AddTrailingMetadata(kAnswerKey, *answer);
    return new LastWord(ToGrpc(answer.status()));
  }

  // Empty when there is none.
  static std::string Metadata(grpc::GenericCallbackServerContext* context, const char* key) {
    const auto& all = context->client_metadata();
    const auto it = all.find(key);
    return it == all.end() ? "" : std::string(it->second.data(), it->second.size());
  }

  static absl::Duration SinceBoot() {
    return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
  }

  const AcceptFunction accept_;
  const TransportOptions options_;
  std::string address_;
  std::unique_ptr<PassDesk> desk_;  // null: nobody is asked for a pass
  Complaints complaints_;
  std::shared_ptr<GrpcDoor> door_;
  StreamSet streams_;
  std::unique_ptr<grpc::Server> server_;
};

class GrpcListener final : public Listener {
 public:
  explicit GrpcListener(std::shared_ptr<StreamServer> server) : server_(std::move(server)) {}

  ~GrpcListener() override {
    server_->CloseStreams();
    const absl::Duration patience = server_->close_linger() + kGrace;
    auto stopped = std::make_shared<absl::Notification>();
    std::thread thread([server = std::move(server_), stopped] {
      server->Shutdown();
      stopped->Notify();
    });
    if (stopped->WaitForNotificationWithTimeout(patience)) {
      thread.join();
    } else {
      thread.detach();  // a peer is stuck; the thread ends with it
    }
  }

  std::string address() const override { return server_->address(); }

 private:
  std::shared_ptr<StreamServer> server_;
};

class GrpcTransport final : public Transport, public AsksForPasses {
 public:
  explicit GrpcTransport(const TransportOptions& options)
      : options_(options), credentials_(ClientCredentials(options.tls.get())) {}

  ~GrpcTransport() override {
    std::vector<std::shared_ptr<GrpcStream>> left;
    const absl::Status reason = absl::UnavailableError("the transport ended");
    const absl::Time deadline = absl::Now() + options_.close_linger + kGrace;
    for (auto& stream : streams_.CloseAll(reason)) {
      if (!stream->WaitDone(deadline)) left.push_back(std::move(stream));
    }
    if (left.empty()) return;
    // Their peers are stuck, and gRPC's threads must outlive them.
    std::thread([left = std::move(left), threads = std::move(threads_)] {
      for (const auto& stream : left) stream->WaitDone(absl::InfiniteFuture());
    }).detach();
  }

  void UseSecret(std::shared_ptr<const Secret> secret, const StrangerLimits& limits) override {
    secret_ = std::move(secret);
    limits_ = limits;
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   AcceptFunction accept) override {
    ASSIGN_OR_RETURN(HostPort host_port, ParseHostPort(address));
    auto server = std::make_shared<StreamServer>(std::move(accept), options_, secret_);
    RETURN_IF_ERROR(server->Start(std::move(host_port), limits_));
    return std::make_unique<GrpcListener>(std::move(server));
  }

  std::shared_ptr<Connection> Connect(const std::string& address, absl::Duration timeout,
                                      std::shared_ptr<ConnectionHandler> handler) override {
    auto stream = std::make_shared<ClientStream>(address, options_);
    auto connection = std::make_shared<GrpcConnection>(stream);
    if (!streams_.Add(stream)) {
      stream->StayUnstarted();
      return connection;
    }
    const absl::Status readable = ParseHostPort(address).status();
    if (readable.ok()) {
      stream->Start(NewChannel(address), timeout, std::move(handler), secret_);
    } else {
      stream->Fail(readable, std::move(handler));
    }
    return connection;
  }

 private:
  std::shared_ptr<grpc::Channel> NewChannel(const std::string& address) const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a TCP connection of its own
    SetConnectionArguments([&](const char* name, int value) { arguments.SetInt(name, value); });
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
    // What gRPC calls so is how long one attempt may take. A handshake with TLS is four round
    // trips, and the daemon's machine may be overloaded.
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kMostOfAttemptMs);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
    return grpc::CreateCustomChannel(address, credentials_, arguments);
  }

  const TransportOptions options_;
  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  std::shared_ptr<const Secret> secret_;  // null: none
  StrangerLimits limits_;
  // Outlives the streams' channels.
  std::unique_ptr<GrpcThreads> threads_ = std::make_unique<GrpcThreads>();
  StreamSet streams_;
};

// gRPC calls what is no news an error, too; but after a failed assertion it ends the process.
void LogFromGrpc(gpr_log_func_args* line) {
  if (absl::StartsWith(line->message, "assertion failed")) {
    LogError("gRPC: ", line->file, ":", line->line, ": ", line->message);
  } else {
    LogDebug("gRPC: ", line->message);
  }
}

}  // namespace

std::unique_ptr<Transport> NewGrpcTransport(const TransportOptions& options) {
  // gRPC writes about every refused connection to stderr; GRPC_VERBOSITY brings that back.
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function(LogFromGrpc);
  return std::make_unique<GrpcTransport>(options);
}

}  // namespace coxswain::net
