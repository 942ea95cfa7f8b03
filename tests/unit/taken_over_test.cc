// A coordinator whose tasks, which the test plays, have seen a newer one.
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/core/controller.h"
#include "runtime/base/version.h"
#include "runtime/cluster/control.h"
#include "tests/testing/fake_tasks.h"

namespace coxswain {
namespace {

using testing::CauseOf;
using testing::Mailbox;

// Agrees to everything, until it has seen a newer coordinator.
class AgreeableTask {
 public:
  AgreeableTask(Transport* transport, std::string job) : job_(std::move(job)) {
    auto listener = transport->Listen(job_, [this](std::shared_ptr<Connection> connection) {
      return std::make_shared<Handler>(this, std::move(connection));
    });
    REQUIRE(listener.ok());
    listener_ = *std::move(listener);
  }
  // Its connections close, and it lets no older coordinator in.
  void SeeNewer() {
    newer_ = true;
    while (!connections_.empty()) {
      connections_.Take("a connection")->Close(absl::UnavailableError("a newer one is here"));
    }
  }

 private:
  class Handler final : public ConnectionHandler {
   public:
    Handler(AgreeableTask* task, std::shared_ptr<Connection> connection)
        : task_(task), connection_(std::move(connection)) {
      task_->connections_.Put(connection_);
    }
    void OnMessage(Message message) override {
      const auto type = static_cast<MessageType>(message.type);
      if (type == MessageType::kHello) {
        proto::HelloReply reply;
        *reply.mutable_status() = ToProto(task_->Greeting());
        reply.set_job(task_->job_);
        reply.set_incarnation(1);
        reply.set_version(kVersion);
        connection_->Send(EncodeControl(MessageType::kHelloReply, reply));
      } else if (type == MessageType::kPing) {
        connection_->Send(EncodeControl(MessageType::kPong, proto::PongReply()));
      } else if (auto request = DecodeControl<proto::ControlRequest>(message); request.ok()) {
        proto::ControlReply reply;
        reply.set_request(request->request());
        *reply.mutable_status() = ToProto(absl::OkStatus());
        connection_->Send(EncodeControl(MessageType::kControlReply, reply));
      }
    }
    void OnClosed(absl::Status) override {}

   private:
    AgreeableTask* task_;
    std::shared_ptr<Connection> connection_;
  };

  absl::Status Greeting() const {
    if (!newer_) return absl::OkStatus();
    return WithDetail(absl::FailedPreconditionError("epoch 1 of a is older than epoch 2 of b"),
                      {ErrorCause::kStaleEpoch, true, "", 0});
  }

  const std::string job_;
  std::atomic<bool> newer_{false};
  Mailbox<std::shared_ptr<Connection>> connections_;
  std::unique_ptr<Listener> listener_;
};

struct FakeCluster {
  FakeCluster() : transport(NewInProcessTransport()) {
    ControllerOptions options;
    options.ps = {"ps"};
    options.workers = {"worker"};
    options.connect_timeout = absl::Minutes(5);
    options.on_event = [](const ClusterEvent&) {};
    controller = std::make_unique<Controller>(env.get(), transport.get(), options);
  }
  absl::Status Start() {
    controller->Start([this](absl::Status status) { answers.Put(std::move(status)); });
    return answers.Take("the start");
  }

  Mailbox<absl::Status> answers;
  std::unique_ptr<Env> env = NewRealEnv(1);
  std::unique_ptr<Transport> transport;
  AgreeableTask ps{transport.get(), "ps"}, worker{transport.get(), "worker"};
  std::unique_ptr<Controller> controller;
};

TEST_CASE("a coordinator that is older than the last one does not wait to be let in",
          "[controller]") {
  FakeCluster f;
  f.worker.SeeNewer();
  const absl::Status refused = f.Start();
  CHECK(CauseOf(refused) == ErrorCause::kStaleEpoch);
  CHECK(absl::StrContains(refused.message(), "epoch 2 of b"));
  CHECK(absl::StrContains(refused.message(), "clock"));
}

TEST_CASE("a coordinator that a newer one has taken over from ends", "[controller]") {
  FakeCluster f;
  REQUIRE(f.Start().ok());
  f.controller->Schedule({}, [&f](auto results) { f.answers.Put(results.status()); });
  f.ps.SeeNewer();
  const absl::Status ended = f.answers.Take("the closure's end");
  CHECK(CauseOf(ended) == ErrorCause::kStaleEpoch);
  CHECK(absl::StrContains(ended.message(), "another coordinator has taken over"));
  CHECK(absl::StrContains(ended.message(), "/job:ps/task:0"));
}

}  // namespace
}  // namespace coxswain
