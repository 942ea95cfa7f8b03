// What a worker daemon and a PS daemon have in common: they listen, let one coordinator at a time
// command them, answer pings and status questions, and fence off everything of another session.
//
// Thread model: everything protected runs on the daemon's event loop, but for what says otherwise.
// Where a daemon is entered it asserts that.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "protos/control.pb.h"
#include "runtime/base/ids.h"
#include "runtime/cluster/open_requests.h"
#include "runtime/cluster/session_gate.h"
#include "runtime/env/env.h"
#include "runtime/env/roots.h"
#include "runtime/metrics/family.h"
#include "runtime/net/message_type.h"
#include "runtime/net/transport.h"
#include "runtime/trace/recorder.h"

namespace coxswain::device {
class DeviceSet;
}  // namespace coxswain::device

namespace coxswain::cluster {

struct DaemonOptions {
  std::string job;  // "worker" or "ps"
  int task = 0;
  std::string address;  // to listen on; port 0 picks one
  // Of this life, given by who started it; never one that was used before. 0: a random one.
  Incarnation incarnation = 0;
  // Below which data sets are read. Other files come from the Env.
  env::Roots roots = {};
  // Whether the machine needs the memory of a session whose coordinator fell silent. Null: never.
  std::function<bool()> memory_wanted = nullptr;
  // Beside the CPU; a worker's. Null: none.
  std::shared_ptr<const device::DeviceSet> devices = nullptr;
  // Of a PS: opens those whose memory may have tables, when the first table is to be there. Null:
  // there are none.
  std::function<absl::StatusOr<std::shared_ptr<const device::DeviceSet>>()> open_devices = nullptr;
  // Of a PS: for rows of tables on disk. Empty: none is to be there.
  std::string table_directory = {};
  // Called once, on any thread, when a device works no more in this process: what still runs there
  // fails as that of a lost task, and the process is to end. Null: nothing more happens.
  std::function<void(absl::Status)> device_lost = nullptr;
};

class Daemon {
 public:
  // `env` and `transport` must outlive the daemon.
  Daemon(env::Env* env, net::Transport* transport, DaemonOptions options);
  virtual ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Starts to listen. Errors: as Transport::Listen.
  absl::Status Start();
  // Before the end: tells the coordinator that the task is to end, and calls `let_go` once nothing
  // is wanted of it any more; at once where nobody holds it. The coordinator may never say so. On
  // any thread. Thread-safe.
  void AskToEnd(std::function<void()> let_go);
  // The first step of an end in good order: tells the coordinator, by closing its connection with
  // cause kTerminated, and lets none in any more. `done` is called when that is under way, on any
  // thread. Then destroy the daemon. Thread-safe.
  void Terminate(std::function<void()> done);
  // Ends all connections and waits until nothing of this daemon runs. Derived destructors call it
  // first.
  void Stop();

  std::string address() const;
  Incarnation incarnation() const { return incarnation_; }

  // For Prometheus. Asks the loop, and waits for it for at most `most`: then only what is known
  // without it. On any thread but those of a loop. Thread-safe.
  metrics::Families CollectMetrics(absl::Duration most);

 protected:
  // One connection to this daemon. `connection` may be used on any thread.
  struct Peer {
    virtual ~Peer() = default;
    std::shared_ptr<net::Connection> connection;
    proto::PeerRole role = proto::OBSERVER;
    bool greeted = false;
    int task = 0;
    Generation generation = 0;  // a worker's: of the layout that it was set up for
    uint64_t session = 0;       // of the daemon's, when it said hello
    // Messages that the loop has not handled yet. While there are none, its connection's thread may
    // read what is above.
    std::atomic<int> waiting{0};
    // Whether it commands this daemon, set by the loop; and when something of it arrived last, in
    // nanoseconds of the monotonic clock: the loop may be behind with what has come.
    std::atomic<bool> commands{false};
    std::atomic<int64_t> heard{0};
    const std::shared_ptr<OpenRequests> requests = std::make_shared<OpenRequests>();
  };
  using Reply = std::function<void(proto::ControlReply reply, std::vector<Buffer> payload)>;

  // A new session begins: what an older one left must be dropped.
  virtual void OnSessionStart(Peer* coordinator) = 0;
  // The coordinator said goodbye, another one took over, or its lease ran out and memory is wanted.
  // That the lease ran out ends nothing: the coordinator may only have stood still.
  virtual void OnSessionEnd() = 0;
  // A request of the session's coordinator. `reply` must be called once, on any thread.
  virtual void OnControl(const proto::ControlRequest& request, net::Message message,
                         Reply reply) = 0;
  // A message with a packed header, from a peer that was greeted.
  virtual void OnData(Peer* peer, net::Message message) = 0;
  // The same, on the connection's thread, before it goes to the loop; so frames of several
  // connections need not pass it one after the other. Called only while nothing of the connection
  // waits for the loop. False, with the message as it was: OnData is to have it.
  virtual bool TakeData(Peer* peer, net::Message* message) {
    (void)peer, (void)message;
    return false;
  }
  // On a thread of the transport.
  virtual std::shared_ptr<Peer> NewPeer() { return std::make_shared<Peer>(); }
  virtual void OnLowWater(ClosureId closure) { (void)closure; }
  virtual void FillStatus(proto::TaskStatus* status) = 0;
  // For a daemon that must ask elsewhere for some of it: fills in the status, and replies.
  virtual void SendStatus(const proto::StatusQuery& query, proto::TaskStatus status,
                          const Reply& reply);
  // What Prometheus is told beside TaskInfo, of a status that is filled in as for SendStatus. Calls
  // `done` at most once, on any thread.
  using MetricsDone = std::function<void(metrics::Families families)>;
  virtual void SendMetrics(proto::TaskStatus status, const MetricsDone& done);

  static void ReplyStatus(const Reply& reply, const absl::Status& status);
  // Whether a worker said hello in this session, and its coordinator has begun to use it.
  bool IsOfSession(const Peer& worker) const { return worker.session == session_ && session_used_; }
  // Counts beginnings and ends of sessions.
  uint64_t session() const { return session_; }
  bool session_used() const { return session_used_; }

  env::Env* env() { return env_; }
  env::EventLoop* loop() const { return loop_; }
  const SessionGate& gate() const { return gate_; }
  const DaemonOptions& options() const { return options_; }
  std::string TaskName() const;
  // Of this daemon's families: "coxswain_ps".
  std::string MetricsPrefix() const;
  net::Transport* transport() { return transport_; }
  trace::TraceRecorder* trace() { return &trace_; }
  uint64_t frames_received_ = 0, bytes_received_ = 0, bytes_sent_ = 0;

 private:
  class Handler;

  void OnMessage(const std::shared_ptr<Peer>& peer, net::Message message);
  void OnHello(Peer* peer, const net::Message& message);
  // `*fresh`: a new session begins, nothing is here of it yet.
  absl::Status Greet(Peer* peer, const proto::HelloRequest& hello, bool* fresh);
  void OnControlMessage(const std::shared_ptr<Peer>& peer, net::Message message);
  void OnPing(Peer* peer, const net::Message& message);
  // What the task says in a pong.
  proto::PongReply MakePong(uint64_t last_request) const;
  void LetGo();
  absl::Status Terminated() const;
  absl::Status Restarted() const;
  void EndSession(absl::string_view why);
  // When something of the coordinator arrived last, handled or not, renews its lease.
  void RenewByArrivals();
  void WatchLease();
  void CheckLease();
  proto::TaskStatus MakeStatus();
  // Turns recording on or off, and hands out what was recorded.
  void Trace(const proto::TraceQuery& query, const Reply& reply);

  env::Env* env_;
  net::Transport* transport_;
  DaemonOptions options_;
  Incarnation incarnation_;
  absl::Duration started_;
  std::unique_ptr<env::EventLoop> own_loop_;
  env::EventLoop* const loop_;  // also for the task that runs while the loop ends
  std::unique_ptr<net::Listener> listener_;
  SessionGate gate_;
  trace::TraceRecorder trace_;
  uint64_t watch_ = 0;        // counts: an older timer does nothing
  bool silent_ = false;       // the lease ran out, and that was said
  std::string told_refusal_;  // the last that was said of a coordinator of another version
  bool terminating_ = false;
  std::function<void()> let_go_;                           // null: it is not to end, or was let go
  std::weak_ptr<net::Connection> coordinator_connection_;  // of the last that was let in
  std::weak_ptr<Peer> coordinator_;                        // the same
  uint64_t session_ = 0;                                   // counts beginnings and ends
  bool session_used_ = false;  // a request of the session's coordinator came
};

}  // namespace coxswain::cluster
