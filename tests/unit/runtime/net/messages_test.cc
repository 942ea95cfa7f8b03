// What a connection promises about messages, over every transport.
#include <thread>

#include "tests/unit/runtime/net/harness.h"

namespace coxswain::net_testing {
namespace {

Kind AnyKind() {
  Kind kind = GENERATE(values<Kind>({InProcess(), Grpc(), SameHost(), SameUser()}));
  return kind;
}

TEST_CASE("messages arrive in order and unchanged, in both directions", "[net]") {
  const Kind kind = AnyKind();
  INFO(kind.name);
  Net net(kind);
  End client = net.Connect();
  std::vector<net::Message> sent;
  for (int i = 0; i < 300; ++i) {
    net::Message message{static_cast<uint16_t>(i), std::string(i % 130, 'a' + i % 26), {}};
    for (int slice = 0; slice < i % 7; ++slice) {
      message.payload.push_back(Bytes((i * 37 + slice * 411) % 3000, i + slice));
    }
    sent.push_back(std::move(message));
  }
  for (const net::Message& message : sent) client.connection->Send(message);
  End server = net.acceptor.Take();
  REQUIRE(server.recorder != nullptr);
  for (const net::Message& message : sent) server.connection->Send(message);
  for (const auto& recorder : {client.recorder, server.recorder}) {
    REQUIRE(recorder->WaitMessages(sent.size()));
    const std::vector<net::Message> received = recorder->messages();
    REQUIRE(received.size() == sent.size());
    for (size_t i = 0; i < sent.size(); ++i) {
      INFO("message " << i);
      REQUIRE(SameMessage(received[i], sent[i]));
    }
    CHECK(recorder->orderly());
  }
}

TEST_CASE("every payload slice starts at a 64-byte boundary, whatever surrounds it", "[net]") {
  const Kind kind = AnyKind();
  INFO(kind.name);
  Net net(kind);
  End client = net.Connect();
  std::vector<net::Message> sent;
  for (size_t header : {0, 1, 23, 24, 63, 64, 65, 4096}) {
    net::Message message{7, std::string(header, 'h'), {}};
    for (size_t size : {0, 1, 63, 64, 65, 511, 512, 513, 0, 4095, 16384, 16385, 100001, 0}) {
      message.payload.push_back(Bytes(size, static_cast<uint32_t>(size + header)));
    }
    sent.push_back(message);
  }
  sent.push_back({8, "", {}});
  sent.push_back({9, "", {Buffer()}});
  for (const net::Message& message : sent) client.connection->Send(message);
  End server = net.acceptor.Take();
  REQUIRE(server.recorder->WaitMessages(sent.size()));
  const std::vector<net::Message> received = server.recorder->messages();
  for (size_t i = 0; i < sent.size(); ++i) {
    INFO("message " << i);
    REQUIRE(SameMessage(received[i], sent[i]));
    CHECK(received[i].payload_bytes() == sent[i].payload_bytes());
    for (const Buffer& slice : received[i].payload) {
      CHECK(reinterpret_cast<uintptr_t>(slice.data()) % kBufferAlignment == 0);
    }
  }
}

TEST_CASE("messages of 50 MiB arrive whole", "[net]") {
  const Kind kind = AnyKind();
  INFO(kind.name);
  Net net(kind);
  End client = net.Connect();
  const net::Message one{1, "one slice", {Bytes(50 << 20, 1)}};
  net::Message many{2, "many slices", {}};
  for (int i = 0; i < 800; ++i) many.payload.push_back(Bytes((50 << 20) / 800, i));
  client.connection->Send(one);
  client.connection->Send(many);
  End server = net.acceptor.Take();
  REQUIRE(server.recorder->WaitMessages(2));
  const std::vector<net::Message> received = server.recorder->messages();
  CHECK(SameMessage(received[0], one));
  CHECK(SameMessage(received[1], many));
}

TEST_CASE("floods from several threads on both sides keep each thread's order", "[net]") {
  const Kind kind = AnyKind();
  INFO(kind.name);
  constexpr int kThreads = 2, kEach = 20000;
  Net net(kind);
  End client = net.Connect();
  End server = net.acceptor.Take();
  REQUIRE(server.connection != nullptr);
  std::vector<std::thread> threads;
  for (net::Connection* connection : {client.connection.get(), server.connection.get()}) {
    for (uint16_t type = 0; type < kThreads; ++type) {
      threads.emplace_back([connection, type] {
        for (int i = 0; i < kEach; ++i) connection->Send(Numbered(type, i));
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& recorder : {client.recorder, server.recorder}) {
    REQUIRE(recorder->WaitMessages(kThreads * kEach));
    const std::vector<net::Message> received = recorder->messages();
    CHECK(received.size() == kThreads * kEach);
    for (uint16_t type = 0; type < kThreads; ++type) CHECK(InOrder(received, type, kEach));
    CHECK(recorder->orderly());
  }
}

TEST_CASE("messages of all sizes that several threads send arrive whole, then the close", "[net]") {
  const Kind kind = AnyKind();
  INFO(kind.name);
  constexpr int kThreads = 3, kEach = 60;
  constexpr size_t kSizes[] = {300'000, 10, 2'000'000, 70'000};
  Net net(kind);
  End client = net.Connect();
  End server = net.acceptor.Take();
  REQUIRE(server.connection != nullptr);
  const auto payload = [&](int thread, int i) {
    return Bytes(kSizes[(thread + i) % 4], static_cast<uint32_t>(100 * thread + i));
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kEach; ++i) {
        net::Message message = Numbered(static_cast<uint16_t>(thread), i);
        message.payload.push_back(payload(thread, i));
        client.connection->Send(std::move(message));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  client.connection->Close(absl::OkStatus());
  CHECK(server.recorder->WaitClosed().ok());
  const std::vector<net::Message> received = server.recorder->messages();
  CHECK(received.size() == kThreads * kEach);
  CHECK(server.recorder->orderly());
  for (uint16_t thread = 0; thread < kThreads; ++thread) CHECK(InOrder(received, thread, kEach));
  bool whole = true;
  for (const net::Message& message : received) {
    const int i = std::stoi(message.header);
    whole = whole && SameBytes(message.payload.at(0), payload(message.type, i));
  }
  CHECK(whole);
}

TEST_CASE("both sides may flood with large messages at once without a deadlock", "[net]") {
  const Kind kind = AnyKind();
  INFO(kind.name);
  Net net(kind);
  End client = net.Connect();
  End server = net.acceptor.Take();
  REQUIRE(server.connection != nullptr);
  const net::Message message{3, "", {Bytes(4 << 20, 5)}};
  for (int i = 0; i < 20; ++i) {
    client.connection->Send(message);
    server.connection->Send(message);
  }
  for (const auto& recorder : {client.recorder, server.recorder}) {
    REQUIRE(recorder->WaitMessages(20));
    for (const net::Message& received : recorder->messages())
      REQUIRE(SameMessage(received, message));
  }
}

TEST_CASE("a long exchange of replies from inside handlers does not grow the stack", "[net]") {
  const Kind kind = AnyKind();
  INFO(kind.name);
  constexpr int kTrips = 20000;
  Net net(kind);
  net.acceptor.prepare = [](End& end) {
    end.recorder->on_message =
        [weak = std::weak_ptr<net::Connection>(end.connection)](const net::Message& m) {
          if (auto connection = weak.lock()) connection->Send(m);
        };
  };
  auto recorder = std::make_shared<Recorder>();
  auto connection = std::make_shared<std::shared_ptr<net::Connection>>();
  recorder->on_message = [connection](const net::Message& message) {
    const int next = std::stoi(message.header) + 1;
    if (next < kTrips) (*connection)->Send(Numbered(1, next));
  };
  *connection = net.transport->Connect(net.listener->address(), kPatience, recorder);
  (*connection)->Send(Numbered(1, 0));
  REQUIRE(recorder->WaitMessages(kTrips));
  CHECK(InOrder(recorder->messages(), 1, kTrips));
  CHECK(recorder->orderly());
  connection->reset();
}

TEST_CASE("connections to one listener are independent", "[net]") {
  const Kind kind = AnyKind();
  INFO(kind.name);
  Net net(kind);
  End first = net.Connect();
  End first_server = net.acceptor.Take();
  End second = net.Connect();
  End second_server = net.acceptor.Take();
  REQUIRE(second_server.connection != nullptr);
  CHECK(first_server.connection->peer() != second_server.connection->peer());
  CHECK(first.connection->peer() == net.listener->address());
  first.connection->Close(absl::OkStatus());
  REQUIRE(first_server.recorder->WaitClosed().ok());
  second.connection->Send(Numbered(1, 0));
  REQUIRE(second_server.recorder->WaitMessages(1));
  CHECK(second_server.recorder->closes() == 0);
  CHECK(first_server.recorder->count() == 0);
}

}  // namespace
}  // namespace coxswain::net_testing
