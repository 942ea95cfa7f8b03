// The coordinator's session with one task: connects, says hello, keeps the lease alive by pings,
// matches replies to requests, and reports when the task is up and when it is lost.
//
// A request may take as long as the task works on it, which its pongs report. If a request or its
// reply is lost, the session ends, because there is no other way to learn the outcome.
//
// A task that does not know the coordinator's session is first asked for its last session; it is
// held once Claim was called.
//
// Thread model: owned by the coordinator's loop; all calls and callbacks happen on it. Calls that
// change state, and callbacks, assert this.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/control.pb.h"
#include "runtime/base/ids.h"
#include "runtime/base/session_id.h"
#include "runtime/base/status.h"
#include "runtime/env/env.h"
#include "runtime/net/transport.h"

namespace coxswain::core {

class TaskSession : public std::enable_shared_from_this<TaskSession> {
 public:
  struct Options {
    std::string job;
    int task = 0;
    std::string address;
    std::string coordinator_name;
    absl::Duration lease = absl::Seconds(2);
    absl::Duration reconnect_interval = absl::Milliseconds(200);
    Incarnation incarnation = 0;  // the only one that is admitted; 0: any
  };
  struct Events {
    std::function<void()> on_answered;          // free, and waits for Claim; see highest_epoch()
    std::function<void()> on_up;                // the task is held; incarnation() is known
    std::function<void(absl::Status)> on_down;  // the task was up and is lost
    // An attempt to connect failed; another follows. Cause kStaleEpoch: another coordinator has
    // taken this task, which was held.
    std::function<void(absl::Status)> on_refused;
    std::function<void(net::Message)> on_data;  // a message with a packed header
    std::function<ClosureId()> low_water;       // for the next ping
    // May be null: the task is asked to end, and waits for LetGo.
    std::function<void()> on_ending = nullptr;
  };
  struct Response {
    proto::ControlReply reply;
    net::Message message;
  };
  using ResponseFn = std::function<void(absl::StatusOr<Response>)>;

  TaskSession(env::Env* env, std::shared_ptr<env::EventLoop> loop, net::Transport* transport,
              Options options, Events events);

  // Keeps trying to connect until Stop.
  void Start();
  // No event or response is called any more, except failing responses during this call.
  void Stop();
  // From now on only this incarnation is admitted; 0: any. A task that is up stays up.
  void Expect(Incarnation incarnation) {
    loop_->AssertOnLoop();
    expected_ = incarnation;
  }
  // Claims the task for this session, also after later losses.
  void Claim(const Session& session);

  // Errors are passed to `done`: Unavailable with cause kTaskLost when the task is not up or is
  // lost before its reply; ResourceExhausted when the request is too large to be sent; else those
  // of the task. `done` is called once.
  void Request(proto::ControlRequest request, std::vector<Buffer> payload, ResponseFn done);
  // A request that has no answer yet.
  struct Waiting {
    std::string what;  // "create_shards"
    absl::Duration since;
  };
  // Of those under way the one that was sent first.
  std::optional<Waiting> oldest_request() const;
  // Dropped when the task is not up.
  void Send(net::Message message);
  // Tells a task that is asked to end that nothing is wanted of it any more.
  void LetGo();
  // The limit of the current connection; without one, the general limit.
  size_t max_message_bytes() const {
    return connection_ == nullptr ? net::kMaxMessageBytes : connection_->max_message_bytes();
  }

  bool up() const {
    loop_->AssertOnLoop();
    return up_;
  }
  // Whether the task has answered the hello that it is free, and is not claimed yet.
  bool answered() const {
    loop_->AssertOnLoop();
    return answered_;
  }
  // The epoch of the task's last session, as it reported; 0: none.
  Epoch highest_epoch() const { return highest_epoch_; }
  const std::string& job() const { return options_.job; }
  int task() const { return options_.task; }
  const std::string& address() const { return options_.address; }
  std::string name() const;
  // "/job:ps/task:1 at 10.0.0.2:7000".
  std::string where() const;
  // The status, annotated with this task's name.
  absl::Status Named(const absl::Status& status) const { return Annotate(status, where()); }
  Incarnation incarnation() const {
    loop_->AssertOnLoop();
    return incarnation_;
  }
  // Whether the task had no state of this session at the last hello.
  bool fresh() const { return fresh_; }

 private:
  class Handler;

  void Connect();
  void SayHello();
  void OnMessage(uint64_t life, net::Message message);
  void OnClosed(uint64_t life, absl::Status status);
  void OnHelloReply(const net::Message& message);
  void OnControlReply(net::Message message);
  void OnPong(const net::Message& message);
  // Errors: those of the reply, or that it comes from another task than expected.
  absl::Status CheckGreeting(const proto::HelloReply& hello) const;
  void Refused(const proto::HelloReply& hello, const absl::Status& status);
  void Answered();
  void Down(absl::Status reason);
  void SchedulePing();
  absl::Status Lost(absl::string_view why) const;

  env::Env* env_;
  std::shared_ptr<env::EventLoop> loop_;
  net::Transport* transport_;
  const Options options_;
  Events events_;
  bool stopped_ = false;
  bool up_ = false;
  bool ending_ = false;  // and said so
  bool answered_ = false;
  bool greeting_ = false;  // a hello waits for its answer
  bool claims_ = false;    // that hello claims the task
  int hellos_ = 0;         // on this connection
  Session session_;        // not chosen: the task is only asked
  Epoch highest_epoch_ = 0;
  uint64_t life_ = 0;  // counts connections: messages of an older one are ignored
  std::shared_ptr<net::Connection> connection_;
  Incarnation incarnation_ = 0;
  Incarnation expected_;
  bool fresh_ = true;
  absl::Duration last_heard_;
  uint64_t last_request_ = 0;
  struct Open {
    ResponseFn done;
    Waiting waiting;
    bool may_block = true;  // the task may be silent while it works on the request
  };
  // By number, so that failures are reported, and requests repeated, in the order of sending.
  std::map<uint64_t, Open> requests_;
  int may_block_ = 0;  // number of requests with may_block
};

}  // namespace coxswain::core
