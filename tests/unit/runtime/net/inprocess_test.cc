// What only the in-process transport promises.
#include <thread>

#include "tests/unit/runtime/net/harness.h"

namespace coxswain::net_testing {
namespace {

TEST_CASE("in process a payload is handed over, not copied, on the sender's thread", "[net]") {
  Net net(InProcess());
  std::thread::id handled_on;
  net.acceptor.prepare = [&](End& end) {
    end.recorder->on_message = [&](const net::Message&) {
      handled_on = std::this_thread::get_id();
    };
  };
  End client = net.Connect();
  End server = net.acceptor.Take();
  REQUIRE(server.connection != nullptr);
  server.connection->Send(Numbered(1, 0));  // once it is here, both ends are open
  REQUIRE(client.recorder->WaitMessages(1));
  const net::Message message{1, "", {Bytes(1000, 1)}};
  client.connection->Send(message);
  // No waiting: it was handled before Send returned.
  REQUIRE(server.recorder->count() == 1);
  CHECK(handled_on == std::this_thread::get_id());
  CHECK(server.recorder->messages()[0].payload[0].data() == message.payload[0].data());
}

TEST_CASE("each in-process transport has its own addresses", "[net]") {
  Net net(InProcess());
  auto other = net::NewInProcessTransport();
  auto recorder = std::make_shared<Recorder>();
  auto connection = other->Connect(net.listener->address(), kPatience, recorder);
  CHECK(absl::IsUnavailable(recorder->WaitClosed()));
  Acceptor acceptor;
  CHECK(other->Listen(net.listener->address(), acceptor.function()).ok());
  CHECK(absl::IsInvalidArgument(other->Listen("", acceptor.function()).status()));
}

TEST_CASE("Connect in process calls no handler itself", "[net]") {
  auto transport = net::NewInProcessTransport();
  const std::thread::id here = std::this_thread::get_id();
  std::thread::id closed_on;
  auto recorder = std::make_shared<Recorder>();
  recorder->on_closed = [&] { closed_on = std::this_thread::get_id(); };
  auto connection = transport->Connect("nobody", kPatience, recorder);
  CHECK(absl::IsUnavailable(recorder->WaitClosed()));
  CHECK(closed_on != here);
}

}  // namespace
}  // namespace coxswain::net_testing
