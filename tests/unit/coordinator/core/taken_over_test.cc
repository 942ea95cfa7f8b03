// Coordinators that want the same cluster: who gets it, and what the others are told. Real daemons,
// in this process.
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/core/controller.h"
#include "ps_server/ps_service.h"
#include "runtime/base/version.h"
#include "runtime/cluster/control.h"
#include "tests/testing/fake_tasks.h"
#include "tests/testing/forwarding.h"
#include "tests/testing/registry.h"
#include "worker_server/worker_service.h"

namespace coxswain::core {
namespace {

using testing::CauseOf;
using testing::ClusterOps;
using testing::FakeCoordinator;
using testing::Mailbox;

// A machine whose clock is off.
class SkewedEnv final : public testing::ForwardingEnv {
 public:
  explicit SkewedEnv(absl::Duration skew) : skew_(skew) {}
  absl::Time Now() override { return testing::ForwardingEnv::Now() + skew_; }

 private:
  const absl::Duration skew_;
};

struct Daemons {
  Daemons() {
    for (int p = 0; p < 2; ++p) StartPs(p);
    worker = std::make_unique<worker::WorkerService>(env.get(), transport.get(), &ClusterOps(),
                                                     cluster::DaemonOptions{"worker", 0, "worker"});
    REQUIRE(worker->Start().ok());
  }
  void StartPs(int p) {
    ps[p].reset();
    ps[p] =
        std::make_unique<ps::PsService>(env.get(), transport.get(), &ClusterOps(),
                                        cluster::DaemonOptions{"ps", p, absl::StrCat("ps", p)}, 1);
    REQUIRE(ps[p]->Start().ok());
  }

  std::unique_ptr<env::Env> env = env::NewRealEnv(1);
  std::unique_ptr<net::Transport> transport = net::NewInProcessTransport();
  std::unique_ptr<ps::PsService> ps[2];
  std::unique_ptr<worker::WorkerService> worker;
};

// A coordinator on a machine of its own.
struct Coordinator {
  Coordinator(Daemons* daemons, const std::string& name, absl::Duration skew = {},
              absl::Duration lease = absl::Seconds(2), Epoch min_epoch = 0)
      : env(skew) {
    ControllerOptions options;
    options.name = name;
    options.ps = {"ps0", "ps1"};
    options.workers = {"worker"};
    options.lease = lease;
    options.min_epoch = min_epoch;
    options.connect_timeout = absl::Minutes(5);
    options.on_event = [](const ClusterEvent&) {};
    controller = std::make_unique<Controller>(&env, daemons->transport.get(), options);
  }
  void Begin() {
    controller->Start([this](absl::Status status) { answers.Put(std::move(status)); });
  }
  absl::Status Start() {
    Begin();
    return answers.Take("the start");
  }

  Mailbox<absl::Status> answers;
  SkewedEnv env;
  std::unique_ptr<Controller> controller;
};

// The epoch that was at a daemon last, as it tells a coordinator that asks.
Epoch EpochAt(Daemons* daemons, const std::string& address) {
  FakeCoordinator asks(daemons->transport.get(), address,
                       FakeCoordinator::Hello(proto::COORDINATOR, 0));
  return asks.GreetingReply().highest_epoch();
}

TEST_CASE("coordinators follow each other whatever their clocks say", "[controller]") {
  Daemons daemons;
  Epoch epoch = 0;
  for (const absl::Duration skew :
       {absl::Hours(24 * 3650), -absl::Hours(24 * 3650), absl::ZeroDuration(), absl::Hours(-1)}) {
    Coordinator coordinator(&daemons, "a", skew);
    REQUIRE(coordinator.Start().ok());
    CHECK(EpochAt(&daemons, "ps0") == ++epoch);
    CHECK(EpochAt(&daemons, "ps1") == epoch);
    CHECK(EpochAt(&daemons, "worker") == epoch);
  }
}

TEST_CASE("a resumed job's epoch is newer than its checkpoint's, on daemons that know of none",
          "[controller]") {
  Daemons daemons;
  {
    Coordinator resumed(&daemons, "a", {}, absl::Seconds(2), 1'800'000'000'000'000);
    REQUIRE(resumed.Start().ok());
    CHECK(EpochAt(&daemons, "ps1") == 1'800'000'000'000'000);
  }
  // A PS that was restarted knows nothing, the other one does: one more than the highest.
  daemons.StartPs(0);
  Coordinator next(&daemons, "b");
  REQUIRE(next.Start().ok());
  CHECK(EpochAt(&daemons, "ps0") == 1'800'000'000'000'001);
}

TEST_CASE("of coordinators that start at the same time one gets the cluster, the other its name",
          "[controller]") {
  for (int round = 0; round < 8; ++round) {
    Daemons daemons;
    const absl::Duration lease = absl::Milliseconds(200);
    auto a = std::make_unique<Coordinator>(&daemons, "alpha:1", absl::Hours(5), lease);
    auto b = std::make_unique<Coordinator>(&daemons, "beta:2", -absl::Hours(5), lease);
    a->Begin();
    b->Begin();
    const absl::Status of_a = a->answers.Take("the start of a");
    const absl::Status of_b = b->answers.Take("the start of b");
    INFO(of_a << "; " << of_b);
    REQUIRE(of_a.ok() != of_b.ok());
    const absl::Status& refused = of_a.ok() ? of_b : of_a;
    CHECK(CauseOf(refused) == ErrorCause::kClusterHeld);
    CHECK(absl::StrContains(refused.message(), of_a.ok() ? "alpha:1" : "beta:2"));
    // When the winner is done and the loser let go, the next one need not wait for a lease.
    a.reset();
    b.reset();
    CHECK(Coordinator(&daemons, "gamma:3").Start().ok());
  }
}

TEST_CASE("a coordinator that cannot have all parameter servers holds none", "[controller]") {
  Daemons daemons;
  // Somebody else has the second PS, from another cluster file.
  auto other = std::make_unique<FakeCoordinator>(daemons.transport.get(), "ps1", 1);
  {
    Coordinator refused(&daemons, "a", {}, absl::Milliseconds(100));
    const absl::Status status = refused.Start();
    CHECK(CauseOf(status) == ErrorCause::kClusterHeld);
    CHECK(absl::StrContains(status.message(), "test:1"));
  }
  FakeCoordinator first(daemons.transport.get(), "ps0",
                        FakeCoordinator::Hello(proto::COORDINATOR, 9, EpochAt(&daemons, "ps0")));
  CHECK(first.Greeting().ok());  // at once
}

TEST_CASE("an impostor that knows the epoch can neither command nor end a session",
          "[controller]") {
  Daemons daemons;
  Coordinator coordinator(&daemons, "a");
  REQUIRE(coordinator.Start().ok());
  const Epoch epoch = EpochAt(&daemons, "ps0");
  proto::HelloRequest hello = FakeCoordinator::Hello(proto::COORDINATOR, epoch, epoch);
  FakeCoordinator impostor(daemons.transport.get(), "ps0", hello);
  CHECK(CauseOf(impostor.Greeting()) == ErrorCause::kClusterHeld);
  // Nor as a worker of that epoch.
  hello = FakeCoordinator::Hello(proto::WORKER, epoch);
  hello.set_expected_incarnation(daemons.ps[0]->incarnation());
  FakeCoordinator worker(daemons.transport.get(), "ps0", hello);
  CHECK(CauseOf(worker.Greeting()) == ErrorCause::kStaleEpoch);
  Mailbox<size_t> tasks;
  coordinator.controller->QueryStatus([&](auto status) { tasks.Put(status.size()); });
  CHECK(tasks.Take("the status") == 3);
}

TEST_CASE("an observer is told no epoch", "[controller]") {
  Daemons daemons;
  Coordinator coordinator(&daemons, "a");
  REQUIRE(coordinator.Start().ok());
  FakeCoordinator observer(daemons.transport.get(), "ps0",
                           FakeCoordinator::Hello(proto::OBSERVER, 0));
  const proto::HelloReply reply = observer.GreetingReply();
  CHECK(cluster::FromProto(reply.status()).ok());
  CHECK(reply.highest_epoch() == 0);
}

// Agrees to everything, until another coordinator was here.
class AgreeableTask {
 public:
  AgreeableTask(net::Transport* transport, std::string job) : job_(std::move(job)) {
    auto listener = transport->Listen(job_, [this](std::shared_ptr<net::Connection> connection) {
      return std::make_shared<Handler>(this, std::move(connection));
    });
    REQUIRE(listener.ok());
    listener_ = *std::move(listener);
  }
  // Its connections close, and it is another one's from now on. `restarted`: it is another process.
  void SeeOther(bool restarted) {
    other_ = true;
    if (restarted) incarnation_ = 2;
    while (!connections_.empty()) {
      connections_.Take("a connection")->Close(absl::UnavailableError("another one is here"));
    }
  }
  Mailbox<bool> refusals;

 private:
  class Handler final : public net::ConnectionHandler {
   public:
    Handler(AgreeableTask* task, std::shared_ptr<net::Connection> connection)
        : task_(task), connection_(std::move(connection)) {
      task_->connections_.Put(connection_);
    }
    void OnMessage(net::Message message) override {
      const auto type = static_cast<net::MessageType>(message.type);
      if (type == net::MessageType::kHello) {
        proto::HelloReply reply;
        *reply.mutable_status() = cluster::ToProto(task_->Greeting());
        reply.set_job(task_->job_);
        reply.set_incarnation(task_->incarnation_.load());
        reply.set_version(kVersion);
        connection_->Send(cluster::EncodeControl(net::MessageType::kHelloReply, reply));
      } else if (type == net::MessageType::kPing) {
        connection_->Send(cluster::EncodeControl(net::MessageType::kPong, proto::PongReply()));
      } else if (auto request = cluster::DecodeControl<proto::ControlRequest>(message);
                 request.ok()) {
        proto::ControlReply reply;
        reply.set_request(request->request());
        *reply.mutable_status() = cluster::ToProto(absl::OkStatus());
        connection_->Send(cluster::EncodeControl(net::MessageType::kControlReply, reply));
      }
    }
    void OnClosed(absl::Status) override {}

   private:
    AgreeableTask* task_;
    std::shared_ptr<net::Connection> connection_;
  };

  absl::Status Greeting() {
    if (!other_) return absl::OkStatus();
    refusals.Put(true);
    return WithDetail(absl::FailedPreconditionError("held by coordinator b"),
                      {ErrorCause::kClusterHeld, true, "", 0});
  }

  const std::string job_;
  std::atomic<bool> other_{false};
  std::atomic<Incarnation> incarnation_{1};
  Mailbox<std::shared_ptr<net::Connection>> connections_;
  std::unique_ptr<net::Listener> listener_;
};

struct FakeCluster {
  FakeCluster() {
    ControllerOptions options;
    options.ps = {"ps"};
    options.workers = {"worker"};
    options.connect_timeout = absl::Minutes(5);
    options.on_event = [](const ClusterEvent&) {};
    controller = std::make_unique<Controller>(env.get(), transport.get(), options);
    controller->Start([this](absl::Status status) { answers.Put(std::move(status)); });
    REQUIRE(answers.Take("the start").ok());
    controller->Schedule({}, [this](auto results) { answers.Put(results.status()); });
  }

  Mailbox<absl::Status> answers;
  std::unique_ptr<env::Env> env = env::NewRealEnv(1);
  std::unique_ptr<net::Transport> transport = net::NewInProcessTransport();
  AgreeableTask ps{transport.get(), "ps"}, worker{transport.get(), "worker"};
  std::unique_ptr<Controller> controller;
};

TEST_CASE("a coordinator that another one has taken over from ends", "[controller]") {
  FakeCluster f;
  f.ps.SeeOther(/*restarted=*/false);
  const absl::Status ended = f.answers.Take("the closure's end");
  CHECK(CauseOf(ended) == ErrorCause::kStaleEpoch);
  CHECK(absl::StrContains(ended.message(), "another coordinator has taken over"));
  CHECK(absl::StrContains(ended.message(), "/job:ps/task:0"));
  CHECK(absl::StrContains(ended.message(), "coordinator b"));
}

TEST_CASE("a worker that another coordinator has is missed, which ends no job", "[controller]") {
  FakeCluster f;
  f.worker.SeeOther(/*restarted=*/false);
  for (int i = 0; i < 3; ++i) f.worker.refusals.Take("an attempt");
  CHECK(f.answers.empty());
}

TEST_CASE("another process at a parameter server's address, which is somebody else's, ends no job",
          "[controller]") {
  FakeCluster f;
  f.ps.SeeOther(/*restarted=*/true);
  for (int i = 0; i < 3; ++i) f.ps.refusals.Take("an attempt");
  CHECK(f.answers.empty());
}

}  // namespace
}  // namespace coxswain::core
