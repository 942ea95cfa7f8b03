// What a connection promises about its end, over every transport.
#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"
#include "runtime/base/status.h"
#include "tests/unit/runtime/net/harness.h"

namespace coxswain::net_testing {
namespace {

Kind AnyKind() {
  Kind kind = GENERATE(values<Kind>({InProcess(), Grpc(), SameHost()}));
  return kind;
}

TEST_CASE("closing either end closes both, once, with the reason that was given", "[net]") {
  const Kind kind = AnyKind();
  const bool by_client = GENERATE(true, false);
  const bool well = GENERATE(true, false);
  INFO(kind.name << ", by " << (by_client ? "client" : "server"));
  ErrorDetail detail{ErrorCause::kStaleEpoch, true, "/job:ps/task:1", 77};
  const absl::Status reason =
      well ? absl::OkStatus() : WithDetail(absl::AbortedError("epoch 3 is over"), detail);
  Net net(kind);
  End client = net.Connect();
  End server = net.acceptor.Take();
  REQUIRE(server.connection != nullptr);
  End& closer = by_client ? client : server;
  closer.connection->Send(Numbered(1, 0));
  closer.connection->Close(reason);
  closer.connection->Close(absl::InternalError("a second reason does not count"));
  closer.connection->Send(Numbered(1, 1));
  for (End* end : {&client, &server}) {
    const absl::Status status = end->recorder->WaitClosed();
    CHECK(status.code() == reason.code());
    CHECK(status.message() == reason.message());
    if (!well) {
      REQUIRE(GetDetail(status).has_value());
      CHECK(GetDetail(status)->cause == ErrorCause::kStaleEpoch);
      CHECK(GetDetail(status)->incarnation == 77);
    }
  }
  End& other = by_client ? server : client;
  CHECK(InOrder(other.recorder->messages(), 1, 1));
  other.connection->Send(Numbered(1, 2));
  net.listener.reset();
  net.transport.reset();
  for (End* end : {&client, &server})
    CHECK((end->recorder->orderly() && end->recorder->closes() == 1));
}

TEST_CASE("a connection closes when its last handle goes", "[net]") {
  const Kind kind = AnyKind();
  INFO(kind.name);
  Net net(kind);
  End client = net.Connect();
  End server = net.acceptor.Take();
  REQUIRE(server.connection != nullptr);
  const bool by_client = GENERATE(true, false);
  (by_client ? client : server).connection.reset();
  CHECK(client.recorder->WaitClosed().ok());
  CHECK(server.recorder->WaitClosed().ok());
}

TEST_CASE("a message above the bound of its transport ends the connection, as ResourceExhausted",
          "[net]") {
  net::TransportOptions options;
  options.max_message_bytes = 4096;
  const std::vector<Kind> kinds = {
      {"in process", "task", [] { return net::NewInProcessTransport(4096); }},
      {"gRPC", "127.0.0.1:0", [=] { return net::NewGrpcTransport(options); }},
      {"same host", "127.0.0.1:0", [=] { return net::NewHostTransport(options); }}};
  for (const Kind& kind : kinds) {
    INFO(kind.name);
    Net net(kind);
    End client = net.Connect();
    End server = net.acceptor.Take();
    REQUIRE(server.connection != nullptr);
    CHECK(client.connection->max_message_bytes() == 4096);
    CHECK(server.connection->max_message_bytes() == 4096);
    net::Message largest{1, "", {Buffer::Allocate(4096 - 64)}};
    REQUIRE(largest.wire_bytes() == 4096);
    server.connection->Send(largest);
    REQUIRE(client.recorder->WaitMessages(1));
    largest.payload = {Buffer::Allocate(4096 - 63)};
    server.connection->Send(std::move(largest));
    const absl::Status status = client.recorder->WaitClosed();
    CHECK(absl::IsResourceExhausted(status));
    CHECK_THAT(std::string(status.message()),
               Catch::Contains("has 4097 bytes, at most 4096 can be sent"));
    CHECK(absl::IsResourceExhausted(server.recorder->WaitClosed()));
  }
}

TEST_CASE("both sides may close at the same time", "[net]") {
  const Kind kind = AnyKind();
  INFO(kind.name);
  Net net(kind);
  for (int i = 0; i < 20; ++i) {
    End client = net.Connect();
    End server = net.acceptor.Take();
    REQUIRE(server.connection != nullptr);
    std::thread thread([&] { client.connection->Close(absl::OkStatus()); });
    server.connection->Close(absl::OkStatus());
    thread.join();
    CHECK(client.recorder->WaitClosed() == absl::OkStatus());
    CHECK(server.recorder->WaitClosed() == absl::OkStatus());
    CHECK((client.recorder->orderly() && server.recorder->orderly()));
  }
}

TEST_CASE("a handler may close and drop its connection from inside a call", "[net]") {
  const Kind kind = AnyKind();
  INFO(kind.name);
  Net net(kind);
  net.acceptor.prepare = [](End& end) {
    auto connection = std::make_shared<std::shared_ptr<net::Connection>>(std::move(end.connection));
    end.recorder->on_message = [connection](const net::Message& message) {
      if (*connection == nullptr) return;
      if (message.type == 1) (*connection)->Close(absl::OkStatus());
      connection->reset();
    };
  };
  for (uint16_t type : {1, 2}) {
    End client = net.Connect();
    client.connection->Send({type, "", {}});
    CHECK(client.recorder->WaitClosed().ok());
    End server = net.acceptor.Take();
    CHECK(server.recorder->WaitClosed().ok());
    CHECK(server.recorder->orderly());
  }
}

TEST_CASE("a listener's end closes what it accepted and leaves no handler running", "[net]") {
  const Kind kind = AnyKind();
  INFO(kind.name);
  Net net(kind);
  const std::string address = net.listener->address();
  absl::Notification entered, leave;
  std::atomic<bool> left{false};
  net.acceptor.prepare = [&](End& end) {
    end.recorder->on_message = [&](const net::Message&) {
      entered.Notify();
      leave.WaitForNotification();
      left = true;
    };
  };
  End client = net.Connect();
  // In process the sender's thread runs the handler.
  std::thread sender([&] { client.connection->Send(Numbered(1, 0)); });
  const bool began = entered.WaitForNotificationWithTimeout(kPatience);
  std::thread releaser([&] { leave.Notify(); });
  net.listener.reset();
  const bool was_left = left;
  sender.join();
  releaser.join();
  REQUIRE(began);
  CHECK(was_left);
  End server = net.acceptor.Take();
  CHECK(server.recorder->closes() == 1);
  CHECK(absl::IsUnavailable(server.recorder->WaitClosed()));
  CHECK(absl::IsUnavailable(client.recorder->WaitClosed()));
  // The address is free again.
  Acceptor again;
  auto listener = net.transport->Listen(address, again.function());
  REQUIRE(listener.ok());
  End next = net.ConnectTo(address);
  CHECK(again.Take().connection != nullptr);
}

TEST_CASE("a transport's end closes what it connected", "[net]") {
  const Kind kind = AnyKind();
  INFO(kind.name);
  Net net(kind);
  End client = net.Connect();
  End server = net.acceptor.Take();
  REQUIRE(server.connection != nullptr);
  net.transport.reset();
  CHECK(client.recorder->closes() == 1);
  CHECK(absl::IsUnavailable(client.recorder->WaitClosed()));
  CHECK(absl::IsUnavailable(server.recorder->WaitClosed()));
  client.connection->Send(Numbered(1, 0));  // does nothing
  client.connection->Close(absl::OkStatus());
}

TEST_CASE("who connects while its transport ends has a dead connection, of which it hears nothing",
          "[net]") {
  const Kind kind = GENERATE(values<Kind>({Grpc(), SameHost(), SameUser()}));
  INFO(kind.name);
  Net net(kind);
  net::Transport* const transport = net.transport.get();
  const std::string address = net.listener->address();
  End late{nullptr, std::make_shared<Recorder>()};
  End client{nullptr, std::make_shared<Recorder>()};
  client.recorder->on_closed = [&] {
    late.connection = transport->Connect(address, kPatience, late.recorder);
  };
  client.connection = transport->Connect(address, kPatience, client.recorder);
  End server = net.acceptor.Take();
  REQUIRE(server.connection != nullptr);
  net.transport.reset();
  REQUIRE(late.connection != nullptr);
  late.connection->Send(Numbered(1, 0));
  late.connection->Close(absl::OkStatus());
  late.connection.reset();
  CHECK(late.recorder->closes() == 0);
  CHECK(late.recorder.use_count() == 1);
}

TEST_CASE("connecting to nobody ends in Unavailable that names the address", "[net]") {
  const Kind kind = AnyKind();
  INFO(kind.name);
  Net net(kind);
  const std::string address = net.listener->address();
  net.listener.reset();
  End client = net.ConnectTo(address, absl::Milliseconds(100));
  client.connection->Send(Numbered(1, 0));
  const absl::Status status = client.recorder->WaitClosed();
  CHECK(absl::IsUnavailable(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains(address));
}

TEST_CASE("a refused connection is Unavailable", "[net]") {
  const Kind kind = AnyKind();
  INFO(kind.name);
  auto transport = kind.make();
  auto listener = transport->Listen(kind.listen_at, [](auto) { return nullptr; });
  REQUIRE(listener.ok());
  auto recorder = std::make_shared<Recorder>();
  auto connection = transport->Connect((*listener)->address(), kPatience, recorder);
  CHECK(absl::IsUnavailable(recorder->WaitClosed()));
}

TEST_CASE("an address can be listened at once", "[net]") {
  const Kind kind = AnyKind();
  INFO(kind.name);
  Net net(kind);
  Acceptor acceptor;
  auto second = net.transport->Listen(net.listener->address(), acceptor.function());
  CHECK(absl::IsUnavailable(second.status()));
  CHECK_THAT(second.status().ToString(), Catch::Contains(net.listener->address()));
}

TEST_CASE("handlers and payloads are let go when a connection has closed", "[net]") {
  const Kind kind = AnyKind();
  INFO(kind.name);
  static std::atomic<int> released;
  released = 0;
  std::weak_ptr<Recorder> handlers[2];
  std::vector<char> memory(1 << 20);
  {
    Net net(kind);
    End client = net.Connect();
    End server = net.acceptor.Take();
    REQUIRE(server.connection != nullptr);
    handlers[0] = client.recorder;
    handlers[1] = server.recorder;
    for (int i = 0; i < 10; ++i) {
      client.connection->Send(
          {1, "", {Buffer::Wrap(memory.data(), memory.size(), Device{}, [] { ++released; })}});
    }
    REQUIRE(server.recorder->WaitMessages(10));
    client.connection->Close(absl::OkStatus());
    REQUIRE(client.recorder->WaitClosed().ok());
    REQUIRE(server.recorder->WaitClosed().ok());
    net.listener.reset();
    net.transport.reset();
    // The connections' handles are still held here; only they.
    client.recorder.reset();
    server.recorder.reset();
    CHECK(handlers[0].expired());
    CHECK(handlers[1].expired());
  }
  CHECK(released == 10);
}

TEST_CASE("payloads that were never sent are let go when the connection closes", "[net]") {
  const Kind kind = AnyKind();
  INFO(kind.name);
  static std::atomic<int> released;
  released = 0;
  std::vector<char> memory(1 << 20);
  {
    Net net(kind);
    const std::string address = net.listener->address();
    net.listener.reset();
    End client = net.ConnectTo(address, absl::Milliseconds(50));
    for (int i = 0; i < 10; ++i) {
      client.connection->Send(
          {1, "", {Buffer::Wrap(memory.data(), memory.size(), Device{}, [] { ++released; })}});
    }
    CHECK(absl::IsUnavailable(client.recorder->WaitClosed()));
  }
  CHECK(released == 10);
}

}  // namespace
}  // namespace coxswain::net_testing
