// The coordinator's end of one task, before a task that the test plays.
#include "coordinator/core/task_session.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "runtime/base/version.h"
#include "runtime/cluster/control.h"
#include "tests/testing/fake_tasks.h"

namespace coxswain::core {
namespace {

using testing::Mailbox;
using testing::TestEnv;

constexpr absl::Duration kLease = absl::Milliseconds(40);

// Greets if it is told to, answers pings and requests if it is told to, and never says anything
// else.
class SilentTask {
 public:
  SilentTask(net::Transport* transport, bool greets) : greets_(greets) {
    auto listener =
        transport->Listen("silent", [this](std::shared_ptr<net::Connection> connection) {
          return std::make_shared<Handler>(this, std::move(connection));
        });
    REQUIRE(listener.ok());
    listener_ = *std::move(listener);
  }

  // Answers pings from now on; with `open` it says that it has these requests, those that the ping
  // speaks of or those up to `upto`, and no others, or with `more` others.
  void AnswerPings(std::vector<uint64_t> open, bool more = false,
                   std::optional<uint64_t> upto = std::nullopt) {
    absl::MutexLock lock(&mu_);
    speaks_ = Speech{std::move(open), more, upto};
  }
  void AnswerRequest(uint64_t request) {
    proto::ControlReply reply;
    *reply.mutable_status() = cluster::ToProto(absl::OkStatus());
    reply.set_request(request);
    std::shared_ptr<net::Connection> connection;
    {
      absl::MutexLock lock(&mu_);
      connection = connection_;
    }
    connection->Send(cluster::EncodeControl(net::MessageType::kControlReply, reply));
  }

  Mailbox<bool> pings;
  Mailbox<uint64_t> requests;
  std::atomic<bool> answers{false};

 private:
  struct Speech {
    std::vector<uint64_t> open;
    bool more = false;
    std::optional<uint64_t> upto;
  };

  std::optional<proto::PongReply> PongTo(const net::Message& ping) {
    absl::MutexLock lock(&mu_);
    proto::PongReply pong;
    if (!speaks_) return answers ? std::optional(pong) : std::nullopt;
    const uint64_t last = cluster::DecodeControl<proto::PingRequest>(ping)->last_request();
    pong.set_last_request(speaks_->upto.value_or(last));
    for (const uint64_t request : speaks_->open) pong.add_open_requests(request);
    pong.set_more_open(speaks_->more);
    return pong;
  }
  class Handler final : public net::ConnectionHandler {
   public:
    Handler(SilentTask* task, std::shared_ptr<net::Connection> connection)
        : task_(task), connection_(std::move(connection)) {}
    void OnMessage(net::Message message) override {
      switch (static_cast<net::MessageType>(message.type)) {
        case net::MessageType::kHello: {
          if (!task_->greets_) return;
          proto::HelloReply reply;
          *reply.mutable_status() = cluster::ToProto(absl::OkStatus());
          reply.set_job("ps");
          reply.set_incarnation(1);
          reply.set_version(kVersion);
          {
            absl::MutexLock lock(&task_->mu_);
            task_->connection_ = connection_;
          }
          connection_->Send(cluster::EncodeControl(net::MessageType::kHelloReply, reply));
          return;
        }
        case net::MessageType::kPing:
          if (const auto pong = task_->PongTo(message)) {
            connection_->Send(cluster::EncodeControl(net::MessageType::kPong, *pong));
          }
          task_->pings.Put(true);
          return;
        default:
          task_->requests.Put(cluster::DecodeControl<proto::ControlRequest>(message)->request());
      }
    }
    void OnClosed(absl::Status) override { connection_ = nullptr; }

   private:
    SilentTask* task_;
    std::shared_ptr<net::Connection> connection_;
  };

  const bool greets_;
  absl::Mutex mu_;
  std::optional<Speech> speaks_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<net::Connection> connection_ ABSL_GUARDED_BY(mu_);  // the last that was greeted
  std::unique_ptr<net::Listener> listener_;
};

// A session with it.
struct Sessions {
  explicit Sessions(bool greets)
      : transport(net::NewInProcessTransport()),
        task(transport.get(), greets),
        loop(env.NewLoop()) {
    TaskSession::Options options;
    options.job = "ps";
    options.address = "silent";
    options.lease = kLease;
    TaskSession::Events events;
    events.on_answered = [] {};
    events.on_up = [this] { up.Put(true); };
    events.on_down = [this](absl::Status status) { down.Put(std::move(status)); };
    events.on_refused = [this](absl::Status status) { refused.Put(std::move(status)); };
    events.on_data = [](net::Message) {};
    events.low_water = [] { return ClosureId{0}; };
    session =
        std::make_shared<TaskSession>(&env, loop, transport.get(), options, std::move(events));
    loop->Post([this] {
      session->Claim({7, 1});
      session->Start();
    });
  }
  ~Sessions() {
    absl::Notification stopped;
    loop->Post([&] {
      session->Stop();
      stopped.Notify();
    });
    stopped.WaitForNotification();
  }
  // Returns the request's number.
  uint64_t Request(proto::ControlRequest request) {
    loop->Post([this, request = std::move(request)]() mutable {
      session->Request(std::move(request), {},
                       [this](auto response) { answers.Put(response.status()); });
    });
    return task.requests.Take("the request");
  }
  uint64_t Save() {
    proto::ControlRequest save;
    save.mutable_save_shards()->set_directory("d");
    return Request(std::move(save));
  }
  // Until a ping comes that was sent by the clock of now, behind those that were under way.
  void AwaitPing() {
    while (!task.pings.empty()) task.pings.Take("a ping");
    for (int i = 0; i < 2; ++i) task.pings.Take("a ping");
  }
  // The clock goes on from ping to ping, and is not yet there where the task is lost.
  void Advance(absl::Duration time) {
    for (; time > absl::ZeroDuration(); time -= kLease / 4) {
      AwaitPing();
      CHECK(down.empty());
      env.Advance(kLease / 4);
    }
  }

  TestEnv env;
  std::unique_ptr<net::Transport> transport;
  SilentTask task;
  std::shared_ptr<env::EventLoop> loop;
  std::shared_ptr<TaskSession> session;
  Mailbox<bool> up;
  Mailbox<absl::Status> down, refused, answers;
};

TEST_CASE("a task that takes the connection and does not greet is tried again", "[session]") {
  Sessions s(/*greets=*/false);
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = s.refused.Take("the first refusal, and another");
    CHECK(absl::StrContains(status.message(), "said nothing"));
    CHECK(testing::CauseOf(status) == ErrorCause::kTaskLost);
  }
}

TEST_CASE("a task that falls silent while it saves or is asked for its status is lost in time",
          "[session]") {
  proto::ControlRequest save, status;
  save.mutable_save_shards()->set_directory("d");
  status.mutable_status();
  for (const proto::ControlRequest& request : {save, status}) {
    Sessions s(/*greets=*/true);
    s.up.Take("the greeting");
    s.Request(request);
    s.Advance(kLease * 1.25);
    CHECK(absl::StrContains(s.down.Take("the loss").message(), "nothing heard"));
    CHECK(testing::CauseOf(s.answers.Take("the end of the request")) == ErrorCause::kTaskLost);
  }
}

TEST_CASE("requests that are lost with their task end in the order in which they came",
          "[session]") {
  Mailbox<int> ends;
  Sessions s(/*greets=*/true);
  s.up.Take("the greeting");
  constexpr int kRequests = 20;
  for (int i = 0; i < kRequests; ++i) {
    s.loop->Post([&s, &ends, i] {
      proto::ControlRequest write;
      write.mutable_write_rows();
      s.session->Request(std::move(write), {}, [&ends, i](auto) { ends.Put(i); });
    });
    s.task.requests.Take("the request");
  }
  s.Advance(kLease * 1.25);
  CHECK(absl::StrContains(s.down.Take("the loss").message(), "nothing heard"));
  for (int i = 0; i < kRequests; ++i) CHECK(ends.Take("the end of a request") == i);
}

TEST_CASE("a task that works on a request may be silent for longer", "[session]") {
  Sessions s(/*greets=*/true);
  s.up.Take("the greeting");
  proto::ControlRequest create;
  create.mutable_create_shards();
  s.Request(std::move(create));
  s.Advance(5.25 * kLease);
  CHECK(absl::StrContains(s.down.Take("the loss").message(), "nothing heard"));
}

TEST_CASE("time in which this process itself stood still is no silence of the task", "[session]") {
  Sessions s(/*greets=*/true);
  s.task.answers = true;
  s.up.Take("the greeting");
  s.AwaitPing();
  s.env.Advance(1000 * kLease);
  s.AwaitPing();
  CHECK(s.down.empty());
}

TEST_CASE("a task that answers pings and does not have a request any more is lost", "[session]") {
  Sessions s(/*greets=*/true);
  s.up.Take("the greeting");
  s.task.AnswerPings({1});
  const uint64_t kept = s.Save(), swallowed = s.Save();
  REQUIRE(kept == 1);
  const absl::Status status = s.down.Take("the loss");
  CHECK(absl::StrContains(status.message(), absl::StrCat("request ", swallowed, " (save_shards)")));
  CHECK(testing::CauseOf(status) == ErrorCause::kTaskLost);
  for (int i = 0; i < 2; ++i) {
    CHECK(testing::CauseOf(s.answers.Take("the end of a request")) == ErrorCause::kTaskLost);
  }
}

TEST_CASE("a request is waited for as long as the task names it, whatever is answered before it",
          "[session]") {
  Sessions s(/*greets=*/true);
  s.up.Take("the greeting");
  s.task.AnswerPings({1, 2, 3});
  for (uint64_t i = 1; i <= 3; ++i) REQUIRE(s.Save() == i);
  s.Advance(20 * kLease);
  s.task.AnswerRequest(2);
  s.task.AnswerPings({1, 3});
  CHECK(s.answers.Take("an answer").ok());
  s.Advance(20 * kLease);
  s.task.AnswerRequest(3);
  s.task.AnswerRequest(1);
  s.task.AnswerPings({});
  for (int i = 0; i < 2; ++i) CHECK(s.answers.Take("an answer").ok());
  s.Advance(2 * kLease);
}

TEST_CASE("a pong says nothing of requests that came after it, or for which it had no room",
          "[session]") {
  Sessions s(/*greets=*/true);
  s.up.Take("the greeting");
  const bool old = GENERATE(true, false);
  if (old) {
    s.task.AnswerPings({}, /*more=*/false, /*upto=*/0);
  } else {
    s.task.AnswerPings({1}, /*more=*/true);
  }
  REQUIRE(s.Save() == 1);
  REQUIRE(s.Save() == 2);
  s.Advance(20 * kLease);
  CHECK(s.answers.empty());
  s.task.AnswerPings({2});
  CHECK(absl::StrContains(s.down.Take("the loss").message(), "request 1 "));
}

TEST_CASE("requests of the connection before are none of the next one's", "[session]") {
  Sessions s(/*greets=*/true);
  s.up.Take("the greeting");
  s.task.AnswerPings({});
  s.Save();
  CHECK_FALSE(s.down.Take("the loss").ok());
  s.up.Take("the next greeting");
  s.task.AnswerPings({2});
  REQUIRE(s.Save() == 2);
  s.Advance(20 * kLease);
  s.task.AnswerRequest(2);
  CHECK_FALSE(s.answers.Take("the end of the first").ok());
  CHECK(s.answers.Take("the answer").ok());
}

}  // namespace
}  // namespace coxswain::core
