// The transport over TCP: makes gRPC channels and servers and joins them to streams
// (grpc_stream.h).
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "grpc/support/log.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/support/channel_arguments.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/net/address.h"
#include "runtime/net/grpc_stream.h"
#include "runtime/net/grpc_threads.h"
#include "runtime/net/transport.h"
#include "runtime/net/weak_list.h"

namespace coxswain {
namespace {

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

class GrpcListener final : public Listener, private grpc::CallbackGenericService {
 public:
  GrpcListener(AcceptFunction accept, TransportOptions options)
      : accept_(std::move(accept)), options_(options) {}

  ~GrpcListener() override {
    if (server_ == nullptr) return;
    streams_.CloseAll(absl::UnavailableError(absl::StrCat("the listener at ", address_, " ended")));
    server_->Shutdown(gpr_inf_past(GPR_CLOCK_MONOTONIC));
  }

  absl::Status Start(HostPort address) {
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(this);
    builder.SetMaxReceiveMessageSize(-1);
    builder.SetMaxSendMessageSize(-1);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    int port = 0;
    builder.AddListeningPort(FormatHostPort(address), grpc::InsecureServerCredentials(), &port);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) {
      return absl::UnavailableError(
          absl::StrCat("cannot listen at ", FormatHostPort(address),
                       ": the port is taken or the host is not of this machine"));
    }
    address.port = port;
    address_ = FormatHostPort(address);
    return absl::OkStatus();
  }

  std::string address() const override { return address_; }

 private:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    if (context->method() != kStreamMethod) {
      return grpc::CallbackGenericService::CreateReactor(context);
    }
    auto stream = std::make_shared<ServerStream>(context, options_.close_linger);
    if (streams_.Add(stream)) {
      stream->Accept(accept_);
    } else {
      stream->Refuse();
    }
    return stream.get();  // which keeps itself until gRPC is done with it
  }

  const AcceptFunction accept_;
  const TransportOptions options_;
  std::string address_;
  StreamSet streams_;
  std::unique_ptr<grpc::Server> server_;
};

class GrpcTransport final : public Transport {
 public:
  explicit GrpcTransport(TransportOptions options) : options_(options) {}

  ~GrpcTransport() override {
    for (const auto& stream : streams_.CloseAll(absl::UnavailableError("the transport ended"))) {
      stream->WaitDone();
    }
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   AcceptFunction accept) override {
    ASSIGN_OR_RETURN(HostPort host_port, ParseHostPort(address));
    auto listener = std::make_unique<GrpcListener>(std::move(accept), options_);
    RETURN_IF_ERROR(listener->Start(std::move(host_port)));
    return listener;
  }

  std::shared_ptr<Connection> Connect(const std::string& address, absl::Duration timeout,
                                      std::shared_ptr<ConnectionHandler> handler) override {
    auto stream = std::make_shared<ClientStream>(address, options_.close_linger);
    auto connection = std::make_shared<GrpcConnection>(stream);
    if (!streams_.Add(stream)) {
      stream->StayUnstarted();
      return connection;
    }
    const absl::Status readable = ParseHostPort(address).status();
    if (readable.ok()) {
      stream->Start(NewChannel(address), timeout, std::move(handler));
    } else {
      stream->Fail(readable, std::move(handler));
    }
    return connection;
  }

 private:
  static std::shared_ptr<grpc::Channel> NewChannel(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a TCP connection of its own
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 50);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  }

  const TransportOptions options_;
  GrpcThreads threads_;  // outlives the streams' channels
  StreamSet streams_;
};

void LogFromGrpc(gpr_log_func_args* line) { LogDebug("gRPC: ", line->message); }

}  // namespace

std::unique_ptr<Transport> NewGrpcTransport(const TransportOptions& options) {
  // gRPC writes about every refused connection to stderr; GRPC_VERBOSITY brings that back.
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function(LogFromGrpc);
  return std::make_unique<GrpcTransport>(options);
}

}  // namespace coxswain
