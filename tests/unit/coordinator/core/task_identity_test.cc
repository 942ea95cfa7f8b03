// A coordinator that knows which process it means is served by no other, and holds no other.
#include <catch2/catch.hpp>
#include <memory>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "coordinator/core/task_session.h"
#include "tests/testing/fake_tasks.h"
#include "tests/testing/registry.h"
#include "worker_server/worker_service.h"

namespace coxswain::core {
namespace {

using testing::ClusterOps;
using testing::FakeCoordinator;
using testing::Mailbox;
using testing::TestEnv;

constexpr Epoch kEpoch = 9;
constexpr Incarnation kMeant = 5, kOther = 7;

struct World {
  explicit World(Incarnation incarnation)
      : worker(&env, transport.get(), &ClusterOps(),
               cluster::DaemonOptions{"worker", 0, "worker", incarnation}) {
    REQUIRE(worker.Start().ok());
  }
  absl::Status Greet(Incarnation expected, Epoch epoch) {
    proto::HelloRequest hello = FakeCoordinator::Hello(proto::COORDINATOR, epoch);
    hello.set_expected_incarnation(expected);
    return FakeCoordinator(transport.get(), "worker", hello).Greeting();
  }

  TestEnv env;
  std::unique_ptr<net::Transport> transport = net::NewInProcessTransport();
  worker::WorkerService worker;
};

TEST_CASE("a daemon has the incarnation that its starter gave it, or one of its own", "[session]") {
  CHECK(World(kMeant).worker.incarnation() == kMeant);
  const Incarnation random = World(0).worker.incarnation();
  CHECK(random != 0);
  CHECK(World(0).worker.incarnation() != random);
}

TEST_CASE("a daemon that a coordinator does not mean is not held by it", "[session]") {
  World w(kOther);
  const absl::Status refused = w.Greet(kMeant, kEpoch);
  CHECK(testing::CauseOf(refused) == ErrorCause::kTaskLost);
  // Not even its epoch is known: another one that knows of none is let in.
  CHECK(w.Greet(kOther, kEpoch - 1).ok());
}

TEST_CASE("a daemon of a session goes on with it when another coordinator means somebody else",
          "[session]") {
  World w(kOther);
  FakeCoordinator holder(w.transport.get(), "worker", kEpoch);
  CHECK_FALSE(w.Greet(kMeant, kEpoch + 1).ok());
  proto::PingRequest ping;
  ping.set_session(FakeCoordinator::IdOf(kEpoch));
  holder.Send(cluster::EncodeControl(net::MessageType::kPing, ping));
  CHECK(cluster::DecodeControl<proto::PongReply>(holder.TakePong())->incarnation() == kOther);
}

TEST_CASE("a session lets in the process that it expects, also when that changes", "[session]") {
  World w(kOther);
  std::shared_ptr<env::EventLoop> loop = w.env.NewLoop();
  Mailbox<bool> up;
  Mailbox<absl::Status> refused;
  TaskSession::Options options;
  options.job = "worker";
  options.address = "worker";
  options.incarnation = kMeant;
  options.reconnect_interval = absl::Milliseconds(10);
  TaskSession::Events events;
  events.on_answered = [] {};
  events.on_up = [&] { up.Put(true); };
  events.on_down = [](absl::Status) {};
  events.on_refused = [&](absl::Status status) { refused.Put(std::move(status)); };
  events.on_data = [](net::Message) {};
  events.low_water = [] { return ClosureId{0}; };
  auto session =
      std::make_shared<TaskSession>(&w.env, loop, w.transport.get(), options, std::move(events));
  loop->Post([&] {
    session->Claim({kEpoch, 0});
    session->Start();
  });
  const absl::Status first = refused.Take("the refusal");
  CHECK(absl::StrContains(first.message(), "/job:worker/task:0 at worker"));
  CHECK_FALSE(refused.Take("another one").ok());
  CHECK(up.empty());
  loop->Post([&] { session->Expect(kOther); });
  CHECK(up.Take("the greeting"));
  absl::Notification stopped;
  loop->Post([&] {
    session->Stop();
    stopped.Notify();
  });
  stopped.WaitForNotification();
}

}  // namespace
}  // namespace coxswain::core
