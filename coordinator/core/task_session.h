// The coordinator's end of one task: connects, says hello, keeps the lease alive by pings, matches
// replies to requests, and tells when the task is there and when it is gone.
//
// Thread model: owned by the coordinator's loop; all calls and callbacks happen on it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "protos/control.pb.h"
#include "runtime/base/ids.h"
#include "runtime/env/env.h"
#include "runtime/net/transport.h"

namespace coxswain {

class TaskSession : public std::enable_shared_from_this<TaskSession> {
 public:
  struct Options {
    std::string job;
    int task = 0;
    std::string address;
    Epoch epoch = 0;
    std::string coordinator_name;
    absl::Duration lease = absl::Seconds(2);
    absl::Duration reconnect_interval = absl::Milliseconds(200);
  };
  struct Events {
    std::function<void()> on_up;                   // greeted; incarnation() is known
    std::function<void(absl::Status)> on_down;     // was up and is lost
    std::function<void(absl::Status)> on_refused;  // an attempt to connect failed; another follows
    std::function<void(Message)> on_data;          // a message with a packed header
    std::function<ClosureId()> low_water;          // for the next ping
  };
  struct Response {
    proto::ControlReply reply;
    Message message;
  };
  using ResponseFn = std::function<void(absl::StatusOr<Response>)>;

  TaskSession(Env* env, std::shared_ptr<EventLoop> loop, Transport* transport, Options options,
              Events events);

  // Keeps trying to connect until Stop.
  void Start();
  // No event or response comes any more, except failing responses during the call.
  void Stop();

  // Errors come through `done`: Unavailable with cause kTaskLost when the task is not up or goes
  // away first; else what the task says. `done` is called once.
  void Request(proto::ControlRequest request, std::vector<Buffer> payload, ResponseFn done);
  // Dropped when the task is not up.
  void Send(Message message);

  bool up() const { return up_; }
  const std::string& job() const { return options_.job; }
  int task() const { return options_.task; }
  const std::string& address() const { return options_.address; }
  std::string name() const;
  Incarnation incarnation() const { return incarnation_; }
  // It had nothing of this session when it was greeted last.
  bool fresh() const { return fresh_; }

 private:
  class Handler;

  void Connect();
  void OnMessage(uint64_t life, Message message);
  void OnClosed(uint64_t life, absl::Status status);
  void OnHelloReply(const Message& message);
  void Down(absl::Status reason);
  void SchedulePing();
  absl::Status Lost(absl::string_view why) const;

  Env* env_;
  std::shared_ptr<EventLoop> loop_;
  Transport* transport_;
  const Options options_;
  Events events_;
  bool stopped_ = false;
  bool up_ = false;
  uint64_t life_ = 0;  // counts connections: messages of an older one are ignored
  std::shared_ptr<Connection> connection_;
  Incarnation incarnation_ = 0;
  bool fresh_ = true;
  absl::Duration last_heard_;
  uint64_t last_request_ = 0;
  struct Open {
    ResponseFn done;
    bool may_block = true;  // the task may be silent while it works on it
  };
  absl::flat_hash_map<uint64_t, Open> requests_;
  int may_block_ = 0;  // of them
};

}  // namespace coxswain
