// What a daemon says of the requests that it works on.
#include "runtime/cluster/open_requests.h"

#include <catch2/catch.hpp>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "protos/control.pb.h"
#include "runtime/base/version.h"
#include "runtime/cluster/control.h"
#include "runtime/cluster/daemon.h"
#include "tests/testing/fake_tasks.h"

namespace coxswain::cluster {
namespace {

using testing::Mailbox;

std::vector<uint64_t> Named(const proto::PongReply& pong) {
  return {pong.open_requests().begin(), pong.open_requests().end()};
}

TEST_CASE("a pong names as many open requests as it has room for, the oldest ones", "[cluster]") {
  const auto requests = std::make_shared<OpenRequests>();
  std::vector<std::unique_ptr<OpenRequests::Open>> open;
  for (uint64_t i = 0; i <= OpenRequests::kMostNamed; ++i) {
    open.push_back(std::make_unique<OpenRequests::Open>(requests, 100 - i));
  }
  proto::PongReply full;
  requests->Name(&full);
  CHECK(full.open_requests_size() == static_cast<int>(OpenRequests::kMostNamed));
  CHECK(full.open_requests(0) == 100 - OpenRequests::kMostNamed);
  CHECK(full.more_open());

  open.back()->End();
  proto::PongReply rest;
  requests->Name(&rest);
  CHECK(rest.open_requests_size() == static_cast<int>(OpenRequests::kMostNamed));
  CHECK_FALSE(rest.more_open());
}

// Keeps what it is asked until the test lets it answer.
class KeepingDaemon final : public Daemon {
 public:
  KeepingDaemon(env::Env* env, net::Transport* transport)
      : Daemon(env, transport, {.job = "ps", .address = "daemon"}) {
    REQUIRE(Start().ok());
  }
  ~KeepingDaemon() override { Stop(); }

  static void Answer(const Reply& reply) { ReplyStatus(reply, absl::OkStatus()); }
  Mailbox<Reply> asked;

 private:
  void OnSessionStart(Peer*) override {}
  void OnSessionEnd() override {}
  void OnControl(const proto::ControlRequest&, net::Message, Reply reply) override {
    asked.Put(std::move(reply));
  }
  void OnData(Peer*, net::Message) override {}
  void FillStatus(proto::TaskStatus*) override {}
};

// Its coordinator.
class Asker final : public net::ConnectionHandler {
 public:
  void OnMessage(net::Message message) override { came.Put(std::move(message)); }
  void OnClosed(absl::Status) override {}

  template <typename Proto>
  Proto Take(net::MessageType type) {
    const net::Message message = came.Take("a message");
    REQUIRE(message.type == static_cast<uint16_t>(type));
    return *DecodeControl<Proto>(message);
  }
  Mailbox<net::Message> came;
};

TEST_CASE("a daemon's pong names what it works on, and nothing that was answered or dropped",
          "[cluster]") {
  testing::TestEnv env;
  const auto transport = net::NewInProcessTransport();
  KeepingDaemon daemon(&env, transport.get());
  const auto asker = std::make_shared<Asker>();
  const auto connection = transport->Connect("daemon", absl::Seconds(60), asker);
  const Session session{7, 1};
  proto::HelloRequest hello;
  hello.set_role(proto::COORDINATOR);
  hello.set_epoch(session.epoch);
  hello.set_nonce(session.nonce);
  hello.set_name("test");
  hello.set_lease_seconds(60);
  connection->Send(EncodeControl(net::MessageType::kHello, hello));
  REQUIRE(FromProto(asker->Take<proto::HelloReply>(net::MessageType::kHelloReply).status()).ok());

  const auto ask = [&](uint64_t number) {
    proto::ControlRequest request;
    request.set_session(session.id());
    request.set_request(number);
    request.mutable_save_shards();
    connection->Send(EncodeControl(net::MessageType::kControl, request));
    return daemon.asked.Take("the request");
  };
  const auto ping = [&] {
    proto::PingRequest request;
    request.set_session(session.id());
    request.set_last_request(3);
    connection->Send(EncodeControl(net::MessageType::kPing, request));
    return asker->Take<proto::PongReply>(net::MessageType::kPong);
  };
  auto first = ask(1);
  auto second = ask(2);
  auto third = ask(3);
  CHECK(Named(ping()) == std::vector<uint64_t>{1, 2, 3});
  CHECK(ping().last_request() == 3);
  KeepingDaemon::Answer(second);  // which is kept
  CHECK(asker->Take<proto::ControlReply>(net::MessageType::kControlReply).request() == 2);
  CHECK(Named(ping()) == std::vector<uint64_t>{1, 3});
  first = nullptr;
  CHECK(Named(ping()) == std::vector<uint64_t>{3});
  KeepingDaemon::Answer(third);
  CHECK(asker->Take<proto::ControlReply>(net::MessageType::kControlReply).request() == 3);
  CHECK(Named(ping()).empty());
}

}  // namespace
}  // namespace coxswain::cluster
