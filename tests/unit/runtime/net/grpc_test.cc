// What only the gRPC transport has to cope with: networks that break, and peers that talk nonsense.
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "runtime/net/grpc_codec.h"
#include "tests/unit/runtime/net/harness.h"
#include "tests/unit/runtime/net/relay.h"

namespace coxswain::net_testing {
namespace {

constexpr char kMethod[] = "/coxswain.Transport/Connect";

grpc::ByteBuffer RawBytes(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

// Bytes that are no frame: noise, nothing, and a frame that is cut short.
std::vector<grpc::ByteBuffer> Nonsense() {
  std::vector<net::Packet> frames(1);
  frames[0].message = {1, "header", {Bytes(3000, 1)}};
  std::vector<grpc::Slice> slices;
  REQUIRE(net::EncodeBatch(std::move(frames)).Dump(&slices).ok());
  return {RawBytes(std::string(500, 'z')), RawBytes(""), grpc::ByteBuffer(slices.data(), 1)};
}

// A client of gRPC that writes what it likes.
class RudeClient : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  RudeClient(const std::string& address, const char* method, grpc::ByteBuffer bytes)
      : channel_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())),
        bytes_(std::move(bytes)) {
    grpc::GenericStub(channel_).PrepareBidiStreamingCall(&context_, method, {}, this);
    StartWrite(&bytes_);
    StartRead(&answer_);
    StartCall();
  }
  bool WaitDone() { return done_.WaitForNotificationWithTimeout(kPatience); }
  grpc::Status status() const { return status_; }

 private:
  void OnReadDone(bool ok) override {
    if (ok) StartRead(&answer_);
  }
  void OnDone(const grpc::Status& status) override {
    status_ = status;
    done_.Notify();
  }

  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  grpc::ByteBuffer bytes_, answer_;
  grpc::Status status_;
  absl::Notification done_;
};

// A server of gRPC that answers every stream with the same bytes.
class RudeServer : public grpc::CallbackGenericService {
 public:
  explicit RudeServer(grpc::ByteBuffer bytes) : bytes_(std::move(bytes)) {
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(this);
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    server_ = builder.BuildAndStart();
  }
  ~RudeServer() override { server_->Shutdown(gpr_inf_past(GPR_CLOCK_MONOTONIC)); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  struct Reactor : grpc::ServerGenericBidiReactor {
    explicit Reactor(const grpc::ByteBuffer& answer) : bytes(answer) {
      StartWrite(&bytes);
      StartRead(&asked);
    }
    void OnReadDone(bool ok) override {
      if (ok) {
        StartRead(&asked);
      } else {
        Finish(grpc::Status::OK);
      }
    }
    void OnDone() override { delete this; }
    grpc::ByteBuffer bytes, asked;
  };
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new Reactor(bytes_);
  }

  grpc::ByteBuffer bytes_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// The listener still takes connections and messages.
void CheckAlive(Net& net) {
  End client = net.Connect();
  client.connection->Send(Numbered(1, 0));
  End server = net.acceptor.Take();
  REQUIRE(server.connection != nullptr);
  CHECK(server.recorder->WaitMessages(1));
}

TEST_CASE("a client that sends no frames is cut off with DataLoss", "[net]") {
  Net net(Grpc());
  for (const grpc::ByteBuffer& bytes : Nonsense()) {
    RudeClient client(net.listener->address(), kMethod, bytes);
    End server = net.acceptor.Take();
    REQUIRE(server.connection != nullptr);
    const absl::Status status = server.recorder->WaitClosed();
    INFO(status);
    CHECK(absl::IsDataLoss(status));
    CHECK_THAT(std::string(status.message()), Catch::Contains(server.connection->peer()));
    CHECK(server.recorder->count() == 0);
    CHECK(client.WaitDone());
  }
  CheckAlive(net);
}

TEST_CASE("a server that sends no frames is left with DataLoss", "[net]") {
  auto transport = net::NewGrpcTransport();
  for (const grpc::ByteBuffer& bytes : Nonsense()) {
    RudeServer server(bytes);
    auto recorder = std::make_shared<Recorder>();
    auto connection = transport->Connect(server.address(), kPatience, recorder);
    const absl::Status status = recorder->WaitClosed();
    INFO(status);
    CHECK(absl::IsDataLoss(status));
    CHECK_THAT(std::string(status.message()), Catch::Contains(server.address()));
  }
}

TEST_CASE("another method than the transport's is refused", "[net]") {
  Net net(Grpc());
  RudeClient client(net.listener->address(), "/some.Other/Method", RawBytes("hello"));
  REQUIRE(client.WaitDone());
  CHECK(client.status().error_code() == grpc::StatusCode::UNIMPLEMENTED);
  CheckAlive(net);
}

TEST_CASE("connecting to a gRPC server of another kind is Unavailable", "[net]") {
  grpc::CallbackGenericService nothing;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.RegisterCallbackGenericService(&nothing);
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  auto server = builder.BuildAndStart();
  auto transport = net::NewGrpcTransport();
  auto recorder = std::make_shared<Recorder>();
  auto connection = transport->Connect("127.0.0.1:" + std::to_string(port), kPatience, recorder);
  CHECK(absl::IsUnavailable(recorder->WaitClosed()));
}

TEST_CASE("bytes that are no HTTP/2 do a listener no harm", "[net]") {
  Net net(Grpc());
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  for (const std::string& bytes : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(5000, '\xff'),
                                   preface + std::string(5000, '\x7f'), std::string()}) {
    const int fd = ConnectSocket(net.listener->address());
    REQUIRE(fd >= 0);
    CHECK(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
    shutdown(fd, SHUT_WR);
    char answer[256];
    while (recv(fd, answer, sizeof(answer), 0) > 0) {
    }
    close(fd);
  }
  CheckAlive(net);
}

TEST_CASE("a peer that vanishes is Unavailable on the other side", "[net]") {
  Net net(Grpc());
  Relay relay(net.listener->address());
  End client = net.ConnectTo(relay.address());
  client.connection->Send(Numbered(1, 0));
  End server = net.acceptor.Take();
  REQUIRE(server.recorder->WaitMessages(1));
  relay.Cut();
  for (End* end : {&client, &server}) {
    CHECK(absl::IsUnavailable(end->recorder->WaitClosed()));
    CHECK((end->recorder->orderly() && end->recorder->closes() == 1));
  }
}

TEST_CASE("a frozen peer holds up neither Close nor the ends of transport and listener", "[net]") {
  net::TransportOptions options;
  options.close_linger = absl::Milliseconds(50);
  Net net({"gRPC", "127.0.0.1:0", [&] { return net::NewGrpcTransport(options); }});
  Relay relay(net.listener->address());
  End client = net.ConnectTo(relay.address());
  End server = net.acceptor.Take();
  REQUIRE(server.connection != nullptr);
  const std::string address = net.listener->address();
  relay.Freeze();
  const net::Message message{1, "", {Bytes(8 << 20, 1)}};  // more than the sockets take
  for (int i = 0; i < 10; ++i) {
    client.connection->Send(message);
    server.connection->Send(message);
  }
  const absl::Time start = absl::Now();
  client.connection->Close(absl::CancelledError("enough"));
  CHECK(absl::IsCancelled(client.recorder->WaitClosed()));
  net.transport.reset();
  CHECK(server.recorder->closes() == 0);
  net.listener.reset();
  CHECK(absl::IsUnavailable(server.recorder->WaitClosed()));
  CHECK(absl::Now() - start < absl::Seconds(10));
  Acceptor again;
  CHECK(net::NewGrpcTransport()->Listen(address, again.function()).ok());
}

TEST_CASE("a host that is slow to shake hands is given the time for it", "[net]") {
  const ListeningSocket slow;
  REQUIRE(slow.ok());
  auto transport = net::NewGrpcTransport();
  const auto recorder = std::make_shared<Recorder>();
  auto connection = transport->Connect(slow.address(), kPatience, recorder);
  const int accepted = accept(slow.fd(), nullptr, nullptr);
  REQUIRE(accepted >= 0);
  // Four round trips around the world.
  pollfd hang_up{accepted, POLLRDHUP, 0};
  CHECK(poll(&hang_up, 1, 2000) == 0);
  close(accepted);
  connection->Close(absl::OkStatus());
}

TEST_CASE("a silent host is Unavailable after the timeout", "[net]") {
  const ListeningSocket silent;  // takes TCP connections and says nothing
  REQUIRE(silent.ok());
  auto transport = net::NewGrpcTransport();
  auto recorder = std::make_shared<Recorder>();
  auto connection = transport->Connect(silent.address(), absl::Milliseconds(100), recorder);
  const absl::Status status = recorder->WaitClosed();
  CHECK(absl::IsUnavailable(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains(silent.address()));
}

TEST_CASE("a listener that starts after Connect is found", "[net]") {
  Net net(Grpc());
  const std::string address = net.listener->address();
  net.listener.reset();
  End client = net.ConnectTo(address);
  client.connection->Send(Numbered(1, 0));
  auto late = net.transport->Listen(address, net.acceptor.function());
  REQUIRE(late.ok());
  End server = net.acceptor.Take();
  REQUIRE(server.connection != nullptr);
  CHECK(server.recorder->WaitMessages(1));
  late->reset();
}

TEST_CASE("addresses that cannot be read are InvalidArgument", "[net]") {
  auto transport = net::NewGrpcTransport();
  Acceptor acceptor;
  CHECK(absl::IsInvalidArgument(transport->Listen("nonsense", acceptor.function()).status()));
  auto recorder = std::make_shared<Recorder>();
  auto connection = transport->Connect("unix:/somewhere", kPatience, recorder);
  connection->Send(Numbered(1, 0));
  CHECK(absl::IsInvalidArgument(recorder->WaitClosed()));
  connection->Close(absl::OkStatus());
}

TEST_CASE("a host that is not of this machine cannot be listened at", "[net]") {
  auto transport = net::NewGrpcTransport();
  Acceptor acceptor;
  CHECK(absl::IsUnavailable(transport->Listen("192.0.2.1:0", acceptor.function()).status()));
}

TEST_CASE("IPv6 addresses work where the machine has them", "[net]") {
  auto transport = net::NewGrpcTransport();
  Acceptor acceptor;
  auto listener = transport->Listen("[::1]:0", acceptor.function());
  if (!listener.ok()) {
    CHECK(absl::IsUnavailable(listener.status()));
    return;
  }
  CHECK_THAT((*listener)->address(), Catch::StartsWith("[::1]:"));
  auto recorder = std::make_shared<Recorder>();
  auto connection = transport->Connect((*listener)->address(), kPatience, recorder);
  End server = acceptor.Take();
  REQUIRE(server.connection != nullptr);
  CHECK_THAT(server.connection->peer(), Catch::StartsWith("[::1]:"));
  listener->reset();
}

TEST_CASE("a message larger than gRPC can frame closes the connection", "[net]") {
  Net net(Grpc());
  End client = net.Connect();
  char byte = 0;  // never read: the size alone is refused
  client.connection->Send({1, "", {Buffer::Wrap(&byte, size_t{4} << 30, Device{}, [] {})}});
  CHECK(absl::IsResourceExhausted(client.recorder->WaitClosed()));
}

}  // namespace
}  // namespace coxswain::net_testing
