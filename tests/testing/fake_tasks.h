// A worker among tasks that a test plays: parameter servers that answer when they are told to, and
// a coordinator. All on one transport in this process.
#pragma once

#include <atomic>
#include <catch2/catch.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "runtime/base/status.h"
#include "runtime/cluster/control.h"
#include "runtime/env/env.h"
#include "runtime/function/frame.h"
#include "runtime/net/transport.h"

namespace coxswain::testing {

// A test that waits so long has failed.
constexpr absl::Duration kWorkerPatience = absl::Seconds(60);

inline ErrorCause CauseOf(const absl::Status& status) {
  const auto detail = GetDetail(status);
  return detail ? detail->cause : ErrorCause::kUnknown;
}
inline std::string TaskOf(const absl::Status& status) {
  const auto detail = GetDetail(status);
  return detail ? detail->task : "";
}

// Things that come from other threads, in order.
template <typename T>
class Mailbox {
 public:
  void Put(T value) {
    absl::MutexLock lock(&mu_);
    queue_.push_back(std::move(value));
  }
  // The next one; the test ends here when none comes.
  T Take(const std::string& what) {
    absl::MutexLock lock(&mu_);
    const auto some = [&] { return !queue_.empty(); };
    const bool came = mu_.AwaitWithTimeout(absl::Condition(&some), kWorkerPatience);
    INFO("waiting for " << what);
    REQUIRE(came);
    T value = std::move(queue_.front());
    queue_.pop_front();
    return value;
  }
  bool empty() const {
    absl::MutexLock lock(&mu_);
    return queue_.empty();
  }

 private:
  mutable absl::Mutex mu_;
  std::deque<T> queue_;
};

// The real world, but for its clock, which stands still until it is told, and its fault points,
// which are noted.
class TestEnv final : public env::Env {
 public:
  absl::Time Now() override { return real_->Now(); }
  absl::Duration Monotonic() override { return absl::Nanoseconds(nanoseconds_.load()); }
  uint64_t Random64() override { return real_->Random64(); }
  std::unique_ptr<env::EventLoop> NewLoop() override { return real_->NewLoop(); }
  env::ComputePool* pool() override { return real_->pool(); }
  env::FileSystem* files() override { return real_->files(); }
  void FaultPoint(const char* name) override { fault_points.Put(name); }

  void Advance(absl::Duration time) { nanoseconds_ += absl::ToInt64Nanoseconds(time); }

  Mailbox<std::string> fault_points;

 private:
  std::unique_ptr<env::Env> real_ = env::NewRealEnv(2);
  std::atomic<int64_t> nanoseconds_{1'000'000'000};
};

// A loop whose timers fire when the test says so. One thread at a time may use it.
class ManualLoop final : public env::EventLoop {
 public:
  void Post(Task task) override { task(); }
  TimerId PostAfter(absl::Duration, Task task) override {
    absl::MutexLock lock(&mu_);
    timers_.push_back(std::move(task));
    return ++started_;
  }
  void Cancel(TimerId) override {}
  bool OnLoop() const override { return true; }

  // Fires those that run, and not those that they start. Returns how many there were.
  int Fire() {
    std::vector<Task> due;
    {
      absl::MutexLock lock(&mu_);
      due.swap(timers_);
    }
    for (Task& task : due) task();
    return static_cast<int>(due.size());
  }
  uint64_t started() const {
    absl::MutexLock lock(&mu_);
    return started_;
  }

 private:
  mutable absl::Mutex mu_;
  std::vector<Task> timers_;
  uint64_t started_ = 0;
};

// A PS as the worker sees it: greets at once, unless it is told not to, and keeps frames for the
// test to answer.
class FakePs {
 public:
  struct Frame {
    std::shared_ptr<net::Connection> connection;
    function::SegmentRequest request;

    void Answer(std::vector<Tensor> tensors) const {
      connection->Send(function::Encode(
          function::SegmentReply{request.call, absl::OkStatus(), std::move(tensors)}));
    }
    void Fail(absl::Status status) const {
      connection->Send(
          function::Encode(function::SegmentReply{request.call, std::move(status), {}}));
    }
  };

  FakePs(net::Transport* transport, const std::string& address) {
    auto listener = transport->Listen(address, [this](std::shared_ptr<net::Connection> connection) {
      accepted.Put(true);
      return std::make_shared<Handler>(this, std::move(connection));
    });
    REQUIRE(listener.ok());
    listener_ = *std::move(listener);
  }

  std::string address() const { return listener_->address(); }

  std::atomic<bool> greets{true};
  std::atomic<bool> answers_pings{true};
  Mailbox<bool> accepted;
  Mailbox<proto::HelloRequest> hellos;
  Mailbox<proto::PingRequest> pings;
  Mailbox<Frame> frames;   // also those that came as one
  Mailbox<size_t> joined;  // how many came as one
  Mailbox<absl::Status> closed;

 private:
  class Handler final : public net::ConnectionHandler {
   public:
    Handler(FakePs* ps, std::shared_ptr<net::Connection> connection)
        : ps_(ps), connection_(std::move(connection)) {}
    void OnMessage(net::Message message) override {
      switch (static_cast<net::MessageType>(message.type)) {
        case net::MessageType::kHello:
          ps_->hellos.Put(*cluster::DecodeControl<proto::HelloRequest>(message));
          if (!ps_->greets) return;
          connection_->Send(
              cluster::EncodeControl(net::MessageType::kHelloReply, proto::HelloReply()));
          return;
        case net::MessageType::kPing:
          ps_->pings.Put(*cluster::DecodeControl<proto::PingRequest>(message));
          if (!ps_->answers_pings) return;
          connection_->Send(cluster::EncodeControl(net::MessageType::kPong, proto::PongReply()));
          return;
        case net::MessageType::kFrames: {
          std::vector<net::Message> parts = *function::SplitMessages(std::move(message));
          ps_->joined.Put(parts.size());
          for (net::Message& part : parts) {
            ps_->frames.Put({connection_, *function::DecodeSegmentRequest(std::move(part))});
          }
          return;
        }
        default:
          ps_->frames.Put({connection_, *function::DecodeSegmentRequest(std::move(message))});
      }
    }
    void OnClosed(absl::Status status) override {
      ps_->closed.Put(std::move(status));
      connection_ = nullptr;
    }

   private:
    FakePs* const ps_;
    std::shared_ptr<net::Connection> connection_;
  };

  std::unique_ptr<net::Listener> listener_;
};

// A coordinator's connection to a daemon.
class FakeCoordinator {
 public:
  // Says hello; the test ends here when it is refused.
  FakeCoordinator(net::Transport* transport, const std::string& address, Epoch epoch,
                  Epoch expected = 0)
      : FakeCoordinator(transport, address, Hello(proto::COORDINATOR, epoch, expected)) {
    const absl::Status status = Greeting();
    INFO(status);
    REQUIRE(status.ok());
  }
  // Says this hello, and waits for nothing.
  FakeCoordinator(net::Transport* transport, const std::string& address,
                  const proto::HelloRequest& hello)
      : session_(hello.session()), handler_(std::make_shared<Handler>(&inbox_)) {
    connection_ = transport->Connect(address, kWorkerPatience, handler_);
    connection_->Send(cluster::EncodeControl(net::MessageType::kHello, hello));
  }
  ~FakeCoordinator() {
    connection_->Close(absl::OkStatus());
    handler_->Forget();
  }

  static SessionId IdOf(Epoch epoch) { return Session{epoch, 0}.id(); }
  // `expected`: the epoch that was at the daemon last.
  static proto::HelloRequest Hello(proto::PeerRole role, Epoch epoch, Epoch expected = 0) {
    proto::HelloRequest hello;
    hello.set_role(role);
    hello.set_epoch(epoch);
    hello.set_session(IdOf(epoch));
    hello.set_expected_epoch(expected);
    hello.set_name("test:1");
    hello.set_lease_seconds(60);
    return hello;
  }

  // What it answers to the hello.
  proto::HelloReply GreetingReply() {
    const auto reply =
        cluster::DecodeControl<proto::HelloReply>(inbox_.hellos.Take("the hello's answer"));
    REQUIRE(reply.ok());
    return *reply;
  }
  absl::Status Greeting() { return cluster::FromProto(GreetingReply().status()); }

  // Sends a request; returns its number.
  uint64_t Ask(proto::ControlRequest request, std::vector<Buffer> payload = {}) {
    if (request.has_setup_worker()) generation_ = request.setup_worker().generation();
    request.set_session(session_);
    request.set_request(++last_request_);
    net::Message message = cluster::EncodeControl(net::MessageType::kControl, request);
    message.payload = std::move(payload);
    connection_->Send(std::move(message));
    return last_request_;
  }
  // The next answer to any request.
  proto::ControlReply TakeReply() {
    return *cluster::DecodeControl<proto::ControlReply>(
        inbox_.replies.Take("an answer to a request"));
  }
  bool no_reply() const { return inbox_.replies.empty(); }
  // Sends a request and waits for the next answer, which must be of this one.
  proto::ControlReply Request(proto::ControlRequest request) {
    const uint64_t id = Ask(std::move(request));
    proto::ControlReply reply = TakeReply();
    REQUIRE(reply.request() == id);
    return reply;
  }
  void Must(proto::ControlRequest request) {
    const absl::Status status = cluster::FromProto(Request(std::move(request)).status());
    INFO(status);
    REQUIRE(status.ok());
  }

  void Run(function::ClosureRequest closure) {
    closure.session = session_;
    if (closure.generation == 0) closure.generation = generation_;
    connection_->Send(function::Encode(std::move(closure)));
  }
  // The next completion.
  function::ClosureReply TakeDone() {
    net::Message message = inbox_.data.Take("a completion");
    REQUIRE(message.type == static_cast<uint16_t>(net::MessageType::kClosureDone));
    return *function::DecodeClosureReply(std::move(message));
  }
  function::ClosureReply TakeProgress() {
    net::Message message = inbox_.data.Take("a progress note");
    REQUIRE(message.type == static_cast<uint16_t>(net::MessageType::kClosureProgress));
    return *function::DecodeClosureReply(std::move(message));
  }
  bool no_data() const { return inbox_.data.empty(); }

  void Send(net::Message message) { connection_->Send(std::move(message)); }
  net::Message TakePong() { return inbox_.pongs.Take("a pong"); }
  absl::Status TakeClosed() { return inbox_.closed.Take("the end of the connection"); }

 private:
  struct Inbox {
    Mailbox<net::Message> hellos, replies, pongs, data;
    Mailbox<absl::Status> closed;
  };
  class Handler final : public net::ConnectionHandler {
   public:
    explicit Handler(Inbox* inbox) : inbox_(inbox) {}
    void OnMessage(net::Message message) override {
      absl::MutexLock lock(&mu_);
      if (inbox_ == nullptr) return;
      switch (static_cast<net::MessageType>(message.type)) {
        case net::MessageType::kHelloReply:
          return inbox_->hellos.Put(std::move(message));
        case net::MessageType::kControlReply:
          return inbox_->replies.Put(std::move(message));
        case net::MessageType::kPong:
          return inbox_->pongs.Put(std::move(message));
        default:
          return inbox_->data.Put(std::move(message));
      }
    }
    void OnClosed(absl::Status status) override {
      absl::MutexLock lock(&mu_);
      if (inbox_ != nullptr) inbox_->closed.Put(std::move(status));
    }
    void Forget() {
      absl::MutexLock lock(&mu_);
      inbox_ = nullptr;
    }

   private:
    absl::Mutex mu_;
    Inbox* inbox_;
  };

  const SessionId session_;
  Inbox inbox_;
  std::shared_ptr<Handler> handler_;
  std::shared_ptr<net::Connection> connection_;
  uint64_t last_request_ = 0;
  Generation generation_ = 0;  // of the last setup that was asked for
};

}  // namespace coxswain::testing
