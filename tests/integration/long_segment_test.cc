// A parameter server that computes longer than anybody is patient, over real connections.
#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "runtime/graph/builder.h"
#include "tests/testing/ps_daemon.h"
#include "tests/testing/ps_specs.h"
#include "worker_server/ps_channel.h"

namespace coxswain {
namespace {

using testing::ClusterOps;
using testing::PsDaemon;
using testing::ShardOf;
using testing::VariableOf;
using testing::WholeOf;

constexpr absl::Duration kPatience = absl::Seconds(60);

// Counts the pongs that come over the connections that it makes.
class CountingTransport final : public net::Transport {
 public:
  // `on_pong` is called with how many have come.
  CountingTransport(net::Transport* real, std::function<void(int)> on_pong)
      : real_(real), on_pong_(std::move(on_pong)) {}
  absl::StatusOr<std::unique_ptr<net::Listener>> Listen(const std::string& address,
                                                        net::AcceptFunction accept) override {
    return real_->Listen(address, std::move(accept));
  }
  std::shared_ptr<net::Connection> Connect(
      const std::string& address, absl::Duration timeout,
      std::shared_ptr<net::ConnectionHandler> handler) override {
    return real_->Connect(address, timeout, std::make_shared<Counter>(this, std::move(handler)));
  }

 private:
  class Counter final : public net::ConnectionHandler {
   public:
    Counter(CountingTransport* counts, std::shared_ptr<net::ConnectionHandler> handler)
        : counts_(counts), handler_(std::move(handler)) {}
    void OnMessage(net::Message message) override {
      const bool pong = message.type == static_cast<uint16_t>(net::MessageType::kPong);
      handler_->OnMessage(std::move(message));
      if (pong) counts_->on_pong_(++counts_->pongs_);
    }
    void OnClosed(absl::Status status) override { handler_->OnClosed(std::move(status)); }

   private:
    CountingTransport* const counts_;
    const std::shared_ptr<net::ConnectionHandler> handler_;
  };

  net::Transport* const real_;
  const std::function<void(int)> on_pong_;
  std::atomic<int> pongs_{0};
};

graph::Function AddOne() {
  graph::GraphBuilder b("f", &ClusterOps());
  b.Target("AssignAddVariable", {b.Argument("one", DType::kI64, Shape{1})}, ShardOf(1));
  auto function = b.Finish();
  REQUIRE(function.ok());
  return *std::move(function);
}

// The shard is made on the pool, some time after the request was sent.
absl::Status Create(PsDaemon* ps, const proto::ShardSpec& spec) {
  proto::ControlRequest request;
  *request.mutable_create_shards()->add_shards() = spec;
  ps->Send(request);
  const absl::Time deadline = absl::Now() + kPatience;
  while (!ps->coordinator->HasMessage() && absl::Now() < deadline) {
    if (!ps->env.step_pool.RunOne()) std::this_thread::yield();
  }
  return ps->coordinator->ReceiveStatus();
}

TEST_CASE("a kernel of a PS that takes longer than the silence timeout breaks nothing",
          "[long_segment]") {
  const bool grpc = GENERATE(true, false);
  INFO((grpc ? "gRPC" : "shared memory"));
  PsDaemon::Options options;
  options.threads_for_lanes = true;
  options.transport = grpc ? net::NewGrpcTransport() : net::NewHostTransport();
  options.address = "127.0.0.1:0";
  PsDaemon ps(std::move(options));
  absl::Notification go_on;
  ps.env.at_fault_point = [&](const std::string& name) {
    if (name == "ps.segment.applied") go_on.WaitForNotificationWithTimeout(kPatience);
  };
  REQUIRE(Create(&ps, WholeOf(VariableOf("n", {1}, false, {}, DType::kI64), 1)).ok());
  REQUIRE(ps.Register(1, AddOne()).ok());

  // It is pinged after 2.5 s of silence and given up after 5, which leaves time on a busy machine.
  // The kernel ends after three pongs, so later than that.
  CountingTransport transport(ps.transport(), [&](int pongs) {
    if (pongs == 3) go_on.Notify();
  });
  const auto loop = ps.env.NewLoop();
  worker::PsChannel::Options to;
  to.address = ps.address();
  to.incarnation = ps.incarnation();
  to.session = ps.session();
  auto channel = std::make_shared<worker::PsChannel>(&ps.env, loop.get(), &transport, to);
  function::SegmentRequest request;
  request.session = ps.session();
  request.closure = 1;
  request.plan = 1;
  request.tensors = {Tensor::FromVector<int64_t>({1})};
  absl::Notification over;
  absl::Status status = absl::UnknownError("no answer");
  channel->Call(std::move(request), [&](absl::StatusOr<std::vector<Tensor>> reply) {
    status = reply.status();
    over.Notify();
  });
  REQUIRE(over.WaitForNotificationWithTimeout(2 * kPatience));
  INFO(status);
  CHECK(status.ok());
  CHECK(go_on.HasBeenNotified());
  channel->Close(absl::CancelledError("the test is over"));
}

}  // namespace
}  // namespace coxswain
