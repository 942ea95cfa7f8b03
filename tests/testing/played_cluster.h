// A coordinator whose tasks the test plays: they agree to everything and keep closures for the test
// to answer. All on one transport in this process.
#pragma once

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "coordinator/core/controller.h"
#include "runtime/base/version.h"
#include "runtime/cluster/control.h"
#include "tests/testing/fake_tasks.h"

namespace coxswain::testing {

// Agrees to everything, and keeps the closures for the test.
class PlayedTask {
 public:
  // What it says to a request; nothing: it keeps silent. Called on a thread of the transport.
  using Answer = std::function<std::optional<absl::Status>(const proto::ControlRequest&)>;

  PlayedTask(net::Transport* transport, std::string address, std::string job, int task,
             Answer answer = nullptr)
      : job_(std::move(job)), task_(task), answer_(std::move(answer)) {
    auto listener = transport->Listen(address, [this](std::shared_ptr<net::Connection> connection) {
      return std::make_shared<Handler>(this, std::move(connection));
    });
    REQUIRE(listener.ok());
    listener_ = *std::move(listener);
  }
  struct Run {
    function::ClosureRequest request;
    std::shared_ptr<net::Connection> connection;
    void Done() const { End(absl::OkStatus(), 1); }
    void End(absl::Status status, uint32_t steps_done) const {
      function::ClosureReply reply;
      reply.session = request.session;
      reply.closure = request.closure;
      reply.attempt = request.attempt;
      reply.status = std::move(status);
      reply.steps_done = steps_done;
      connection->Send(function::Encode(std::move(reply)));
    }
  };
  // To a request to which it has kept silent.
  void AnswerNow(const proto::ControlRequest& request, const absl::Status& status) {
    absl::MutexLock lock(&mu_);
    Reply(coordinator_.get(), request, status);
  }
  Mailbox<Run> runs;
  Mailbox<proto::ControlRequest> cancels, setups, others;
  std::atomic<bool> answers{false};  // its closures end at once
  std::atomic<bool> answers_pings{true}, greets{true};
  std::atomic<bool> other_version{false};
  std::atomic<bool> works{false};   // on all that it is asked for, and gives no answer
  std::atomic<bool> breaks{false};  // its connection, when it is asked for something

 private:
  class Handler final : public net::ConnectionHandler {
   public:
    Handler(PlayedTask* task, std::shared_ptr<net::Connection> connection)
        : task_(task), connection_(std::move(connection)) {}
    void OnMessage(net::Message message) override {
      switch (static_cast<net::MessageType>(message.type)) {
        case net::MessageType::kHello: {
          if (!task_->greets) return;
          proto::HelloReply reply;
          *reply.mutable_status() = cluster::ToProto(absl::OkStatus());
          reply.set_job(task_->job_);
          reply.set_task(task_->task_);
          reply.set_incarnation(1);
          reply.set_version(task_->other_version ? "9.9.9" : kVersion);
          connection_->Send(cluster::EncodeControl(net::MessageType::kHelloReply, reply));
          absl::MutexLock lock(&task_->mu_);
          task_->coordinator_ = connection_;
          return;
        }
        case net::MessageType::kPing:
          if (!task_->answers_pings) return;
          connection_->Send(cluster::EncodeControl(net::MessageType::kPong, proto::PongReply()));
          return;
        case net::MessageType::kRunClosure: {
          auto request = function::DecodeClosureRequest(std::move(message));
          if (!request.ok()) return;
          Run run{*std::move(request), connection_};
          task_->answers ? run.Done() : task_->runs.Put(std::move(run));
          return;
        }
        default: {
          auto request = cluster::DecodeControl<proto::ControlRequest>(message);
          if (!request.ok()) return;
          // As they are now: the test may change them once it sees the request.
          const bool breaks = task_->breaks, works = task_->works;
          (request->has_cancel_closures() ? task_->cancels
           : request->has_setup_worker()  ? task_->setups
                                          : task_->others)
              .Put(*request);
          if (breaks) {
            connection_->Close(absl::UnavailableError("broken"));
            return;
          }
          if (works) return;
          const std::optional<absl::Status> status =
              task_->answer_ ? task_->answer_(*request) : absl::OkStatus();
          if (status) Reply(connection_.get(), *request, *status);
        }
      }
    }
    void OnClosed(absl::Status) override {}

   private:
    PlayedTask* task_;
    std::shared_ptr<net::Connection> connection_;
  };

  static void Reply(net::Connection* connection, const proto::ControlRequest& request,
                    const absl::Status& status) {
    proto::ControlReply reply;
    reply.set_request(request.request());
    *reply.mutable_status() = cluster::ToProto(status);
    connection->Send(cluster::EncodeControl(net::MessageType::kControlReply, reply));
  }

  const std::string job_;
  const int task_;
  const Answer answer_;
  absl::Mutex mu_;
  std::shared_ptr<net::Connection> coordinator_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<net::Listener> listener_;
};

struct PlayedCluster {
  explicit PlayedCluster(int num_workers, int in_flight, RecoveryOptions recovery = {},
                         PlayedTask::Answer ps_answer = nullptr,
                         absl::Duration lease = absl::Seconds(2), env::Env* world = env)
      : transport(net::NewInProcessTransport()) {
    ps = std::make_unique<PlayedTask>(transport.get(), "ps", "ps", 0, std::move(ps_answer));
    core::ControllerOptions options;
    options.ps = {"ps"};
    options.in_flight = in_flight;
    options.recovery = recovery;
    options.lease = lease;
    options.on_event = [this](const ClusterEvent& event) {
      if (event.kind == ClusterEvent::Kind::kTimeout) timeouts.Put(event);
      if (event.kind == ClusterEvent::Kind::kWaiting) waits.Put(event);
    };
    for (int w = 0; w < num_workers; ++w) {
      options.workers.push_back(absl::StrCat("worker", w));
      workers.push_back(
          std::make_unique<PlayedTask>(transport.get(), options.workers.back(), "worker", w));
    }
    controller = std::make_unique<core::Controller>(world, transport.get(), options);
    controller->Start([this](absl::Status status) { answers.Put(std::move(status)); });
    REQUIRE(answers.Take("the start").ok());
  }
  void Schedule(core::ClosureSpec closure = {}) {
    controller->Schedule(std::move(closure),
                         [this](auto results) { answers.Put(results.status()); });
  }
  // What a call of the controller answers.
  template <typename Call>
  absl::Status Await(const Call& call) {
    Mailbox<absl::Status> answer;
    call([&answer](absl::Status status) { answer.Put(std::move(status)); });
    return answer.Take("the answer");
  }
  core::Controller::Stats Stats() {
    Mailbox<core::Controller::Stats> stats;
    controller->GetStats([&](core::Controller::Stats s) { stats.Put(std::move(s)); });
    return stats.Take("the counters");
  }

  // Until closures cannot run, because all workers or a parameter server are lost.
  void AwaitLoss() {
    const absl::Time deadline = absl::Now() + kWorkerPatience;
    while (Stats().waiting_for.empty()) REQUIRE(absl::Now() < deadline);
  }

  Mailbox<absl::Status> answers;
  Mailbox<ClusterEvent> timeouts, waits;
  // Never destroyed: a task of the loop may hold the loop for a moment longer than the controller,
  // and a loop that is the last of its environment cannot end on its own thread.
  static inline env::Env* const env = env::NewRealEnv(1).release();
  std::unique_ptr<net::Transport> transport;
  std::unique_ptr<PlayedTask> ps;
  std::vector<std::unique_ptr<PlayedTask>> workers;
  std::unique_ptr<core::Controller> controller;
};

}  // namespace coxswain::testing
