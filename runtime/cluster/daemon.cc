// Passing messages from the connections' threads to the loop (Handler); messages by kind; hellos
// and control requests; the session's end and its lease; status.
#include "runtime/cluster/daemon.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/base/version.h"
#include "runtime/cluster/control.h"
#include "runtime/cluster/daemon_metrics.h"
#include "runtime/env/this_process.h"

namespace coxswain::cluster {
namespace {

// The shortest interval of memory checks while the coordinator is silent.
constexpr absl::Duration kLookAgain = absl::Milliseconds(250);

bool IsData(const net::Message& message) {
  switch (static_cast<net::MessageType>(message.type)) {
    case net::MessageType::kHello:
    case net::MessageType::kPing:
    case net::MessageType::kControl:
      return false;
    default:
      return true;
  }
}

}  // namespace

// Passes the events of one connection to the daemon's loop, or handles data at once. It does not
// own the daemon: the listener's destructor waits until no handler runs.
class Daemon::Handler final : public net::ConnectionHandler {
 public:
  Handler(Daemon* daemon, std::shared_ptr<net::Connection> connection)
      : daemon_(daemon), peer_(daemon->NewPeer()) {
    peer_->connection = std::move(connection);
  }

  void OnMessage(net::Message message) override {
    if (peer_->commands.load(std::memory_order_relaxed)) {
      peer_->heard.store(absl::ToInt64Nanoseconds(daemon_->env_->Monotonic()),
                         std::memory_order_relaxed);
    }
    if (peer_->waiting.load(std::memory_order_acquire) == 0 && peer_->greeted && IsData(message) &&
        daemon_->TakeData(peer_.get(), &message)) {
      return;
    }
    peer_->waiting.fetch_add(1, std::memory_order_relaxed);
    daemon_->loop_->Post([daemon = daemon_, peer = peer_, message = std::move(message)]() mutable {
      daemon->OnMessage(peer, std::move(message));
      peer->waiting.fetch_sub(1, std::memory_order_release);
    });
  }

  void OnClosed(absl::Status status) override {
    // The end of a connection is not logged, but a malformed or too large message is.
    if (absl::IsDataLoss(status) || absl::IsResourceExhausted(status)) {
      LogWarning(daemon_->TaskName(), " loses a connection: ", status.message());
    }
    daemon_->loop_->Post([peer = peer_] {
      peer->greeted = false;
      peer->connection = nullptr;
    });
  }

 private:
  Daemon* daemon_;
  std::shared_ptr<Peer> peer_;
};

Daemon::Daemon(env::Env* env, net::Transport* transport, DaemonOptions options)
    : env_(env),
      transport_(transport),
      options_(std::move(options)),
      incarnation_(options_.incarnation != 0 ? options_.incarnation
                                             : Incarnation(env->Random64() | 1)),  // never 0
      started_(env->Monotonic()),
      own_loop_(env->NewLoop()),
      loop_(own_loop_.get()),
      trace_(env) {}

Daemon::~Daemon() { Stop(); }

absl::Status Daemon::Start() {
  ASSIGN_OR_RETURN(
      listener_,
      transport_->Listen(options_.address, [this](std::shared_ptr<net::Connection> connection) {
        return std::make_shared<Handler>(this, std::move(connection));
      }));
  return absl::OkStatus();
}

void Daemon::Stop() {
  listener_.reset();
  own_loop_.reset();
}

std::string Daemon::address() const { return listener_ ? listener_->address() : ""; }

std::string Daemon::TaskName() const {
  return absl::StrCat("/job:", options_.job, "/task:", options_.task);
}

void Daemon::ReplyStatus(const Reply& reply, const absl::Status& status) {
  proto::ControlReply message;
  *message.mutable_status() = ToProto(status);
  reply(std::move(message), {});
}

void Daemon::OnMessage(const std::shared_ptr<Peer>& peer, net::Message message) {
  loop_->AssertOnLoop();
  if (peer->connection == nullptr) return;  // closed meanwhile
  ++frames_received_;
  bytes_received_ += message.header.size() + message.payload_bytes();
  const auto type = static_cast<net::MessageType>(message.type);
  if (type == net::MessageType::kHello) {
    OnHello(peer.get(), message);
    if (peer->greeted && coordinator_connection_.lock() == peer->connection) {
      coordinator_ = peer;
      peer->commands.store(true, std::memory_order_relaxed);
    }
    return;
  }
  if (!peer->greeted) {
    peer->connection->Close(
        type == net::MessageType::kAuthHello
            ? absl::UnauthenticatedError("it has no secret: it was started with --insecure")
            : absl::FailedPreconditionError("the first message must be a hello"));
    return;
  }
  // Late messages on a connection that the coordinator gave up precede its new connection.
  if (peer->role == proto::COORDINATOR && coordinator_connection_.lock() != peer->connection) {
    peer->connection->Close(absl::FailedPreconditionError("a newer connection has taken over"));
    return;
  }
  // A worker that was set up for a session that has ended; even when its coordinator has begun
  // another session here and has not yet restored the state that the worker expects.
  if (peer->role == proto::WORKER && type != net::MessageType::kPing && !IsOfSession(*peer)) {
    peer->connection->Close(
        WithDetail(absl::UnavailableError(absl::StrCat(TaskName(), " has lost its session")),
                   {ErrorCause::kTaskLost, true, TaskName(), incarnation_}));
    return;
  }
  switch (type) {
    case net::MessageType::kPing:
      OnPing(peer.get(), message);
      return;
    case net::MessageType::kControl:
      OnControlMessage(peer, std::move(message));
      return;
    default:
      OnData(peer.get(), std::move(message));
  }
}

// A coordinator renews its lease with it; a worker that waits for a PS checks that the PS is alive.
void Daemon::OnPing(Peer* peer, const net::Message& message) {
  const auto ping = DecodeControl<proto::PingRequest>(message);
  if (!ping.ok() || peer->role == proto::OBSERVER || !gate_.Check(ping->session()).ok()) {
    peer->connection->Close(absl::FailedPreconditionError("ping of another session"));
    return;
  }
  if (peer->role == proto::COORDINATOR) {
    gate_.Renew(env_->Monotonic());
    OnLowWater(ping->low_water());
  }
  proto::PongReply pong = MakePong(ping->last_request());
  pong.set_session(ping->session());
  peer->requests->Name(&pong);
  peer->connection->Send(EncodeControl(net::MessageType::kPong, pong));
}

proto::PongReply Daemon::MakePong(uint64_t last_request) const {
  proto::PongReply pong;
  pong.set_incarnation(incarnation_);
  pong.set_last_request(last_request);
  pong.set_ending(let_go_ != nullptr);
  return pong;
}

void Daemon::OnHello(Peer* peer, const net::Message& message) {
  proto::HelloReply reply;
  absl::Status status;
  bool asks = false;
  if (auto hello = DecodeControl<proto::HelloRequest>(message); hello.ok()) {
    bool fresh = false;
    status = Greet(peer, *hello, &fresh);
    reply.set_fresh(fresh);
    const bool coordinator = hello->role() == proto::COORDINATOR;
    asks = coordinator && hello->epoch() == 0;
    if (coordinator) reply.set_highest_epoch(gate_.epoch());
  } else {
    status = hello.status();
  }
  *reply.mutable_status() = ToProto(status);
  reply.set_job(options_.job);
  reply.set_task(options_.task);
  reply.set_incarnation(incarnation_);
  reply.set_version(kVersion);
  peer->greeted = status.ok() && !asks;
  peer->connection->Send(EncodeControl(net::MessageType::kHelloReply, reply));
}

absl::Status Daemon::Greet(Peer* peer, const proto::HelloRequest& hello, bool* fresh) {
  peer->role = hello.role();
  peer->task = hello.task();
  peer->generation = hello.generation();
  peer->session = session_;
  switch (hello.role()) {
    case proto::OBSERVER:
      return absl::OkStatus();
    case proto::WORKER: {
      RETURN_IF_ERROR(gate_.Check(hello.session()));
      return hello.expected_incarnation() == incarnation_ ? absl::OkStatus() : Restarted();
    }
    case proto::COORDINATOR: {
      if (terminating_) return Terminated();
      // Checked before anything changes: a daemon that is not the expected one goes on undisturbed.
      if (hello.expected_incarnation() != 0 && hello.expected_incarnation() != incarnation_) {
        return Restarted();
      }
      if (hello.epoch() == 0) return gate_.CheckFree(env_->Monotonic());
      // It would not be used: the daemon stays free for one of its own version.
      if (!hello.version().empty() && hello.version() != kVersion) {
        const std::string why = absl::StrCat("the coordinator runs version ", hello.version(),
                                             ", this daemon ", kVersion);
        // Once for each of them, however often they try.
        const std::string told = absl::StrCat("coordinator ", hello.name(), " is refused: ", why);
        if (std::exchange(told_refusal_, told) != told) LogWarning(told);
        return absl::FailedPreconditionError(why);
      }
      const bool was_held = gate_.held();
      RenewByArrivals();  // a message of the holder may have arrived, but not been handled
      RETURN_IF_ERROR(gate_.Hello(hello, env_->Monotonic(), env_->Now(), fresh));
      // First, so that work that the end of its session cancels is not reported to it as failed.
      if (auto old = coordinator_connection_.lock(); old != nullptr && old != peer->connection) {
        old->Close(absl::UnavailableError("a newer connection has taken over"));
      }
      coordinator_connection_ = peer->connection;
      if (std::exchange(silent_, false) && !*fresh) {
        LogInfo("coordinator ", gate_.holder(), " is heard again");
      }
      if (*fresh) {
        ++session_;
        session_used_ = false;
        trace_.Enable(false);
        if (was_held) OnSessionEnd();
        LogInfo("session of coordinator ", hello.name(), " begins, epoch ", hello.epoch());
      }
      // The hello that began the session may have been a late one, from an attempt to connect that
      // was already given up: then this hello finds no state either.
      *fresh = !session_used_;
      // A reconnect of the same epoch keeps the state, but replies go to the new connection.
      OnSessionStart(peer);
      WatchLease();
      return absl::OkStatus();
    }
    default:
      return absl::InvalidArgumentError("hello of an unknown role");
  }
}

void Daemon::OnControlMessage(const std::shared_ptr<Peer>& peer, net::Message message) {
  auto request = DecodeControl<proto::ControlRequest>(message);
  if (!request.ok()) {
    peer->connection->Close(request.status());
    return;
  }
  // The reply may come from another thread, when the connection is long gone.
  auto open = std::make_shared<OpenRequests::Open>(peer->requests, request->request());
  Reply reply = [connection = peer->connection, id = request->request(), open = std::move(open)](
                    proto::ControlReply r, std::vector<Buffer> payload) {
    r.set_request(id);
    net::Message m = EncodeControl(net::MessageType::kControlReply, r);
    m.payload = std::move(payload);
    if (const size_t bytes = m.wire_bytes(); bytes > connection->max_message_bytes()) {
      proto::ControlReply refusal;
      refusal.set_request(id);
      *refusal.mutable_status() = ToProto(absl::ResourceExhaustedError(
          absl::StrCat("the answer has ", bytes, " bytes, and at most ",
                       connection->max_message_bytes(), " can travel at once")));
      m = EncodeControl(net::MessageType::kControlReply, refusal);
    }
    connection->Send(std::move(m));
    open->End();
  };
  if (request->has_status()) {
    SendStatus(request->status(), MakeStatus(), reply);
    return;
  }
  absl::Status allowed = peer->role == proto::COORDINATOR
                             ? gate_.Check(request->session())
                             : absl::PermissionDeniedError("only a coordinator may command");
  if (!allowed.ok()) {
    ReplyStatus(reply, allowed);
    return;
  }
  gate_.Renew(env_->Monotonic());
  session_used_ = true;
  if (request->has_end_session()) {
    EndSession("it is done");
    ReplyStatus(reply, absl::OkStatus());
    return;
  }
  if (request->has_trace()) {
    Trace(request->trace(), reply);
    return;
  }
  if (request->has_let_go()) {
    ReplyStatus(reply, absl::OkStatus());
    LetGo();
    return;
  }
  OnControl(*request, std::move(message), std::move(reply));
}

void Daemon::Trace(const proto::TraceQuery& query, const Reply& reply) {
  trace_.Enable(query.enable());
  proto::ControlReply message;
  trace_.Drain(trace::TraceRecorder::kMostAtOnce, message.mutable_trace());
  reply(std::move(message), {});
}

absl::Status Daemon::Terminated() const {
  return WithDetail(absl::UnavailableError(absl::StrCat(TaskName(), " was asked to end")),
                    {ErrorCause::kTerminated, true, TaskName(), incarnation_});
}

absl::Status Daemon::Restarted() const {
  return WithDetail(absl::FailedPreconditionError(absl::StrCat(TaskName(), " was restarted")),
                    {ErrorCause::kTaskLost, true, TaskName(), incarnation_});
}

void Daemon::AskToEnd(std::function<void()> let_go) {
  loop_->Post([this, let_go = std::move(let_go)]() mutable {
    let_go_ = std::move(let_go);
    const auto coordinator = coordinator_connection_.lock();
    if (coordinator == nullptr || !gate_.held()) {
      LetGo();
      return;
    }
    coordinator->Send(EncodeControl(net::MessageType::kPong, MakePong(/*last_request=*/0)));
  });
}

void Daemon::LetGo() {
  if (const auto let_go = std::exchange(let_go_, nullptr)) let_go();
}

void Daemon::Terminate(std::function<void()> done) {
  loop_->Post([this, done = std::move(done)] {
    terminating_ = true;
    if (auto coordinator = coordinator_connection_.lock()) coordinator->Close(Terminated());
    done();
  });
}

void Daemon::EndSession(absl::string_view why) {
  loop_->AssertOnLoop();
  if (!gate_.Release()) return;
  LogInfo("session of coordinator ", gate_.holder(), " ends: ", why);
  ++session_;
  trace_.Enable(false);
  OnSessionEnd();
  LetGo();
}

void Daemon::WatchLease() {
  const absl::Duration wait = gate_.lease() / 2;
  loop_->PostAfter(silent_ ? std::max(wait, kLookAgain) : wait, [this, number = ++watch_] {
    if (number != watch_ || !gate_.held()) return;
    CheckLease();
    if (gate_.held()) WatchLease();
  });
}

// A coordinator that stood still for longer than its lease (Ctrl-Z, a migrated machine) must find
// its state unchanged. The state is dropped when another coordinator comes, which is admitted from
// now on, or when memory runs short.
void Daemon::CheckLease() {
  loop_->AssertOnLoop();
  const std::string lease = absl::FormatDuration(gate_.lease());
  RenewByArrivals();
  if (!gate_.Expired(env_->Monotonic())) {
    if (std::exchange(silent_, false)) LogInfo("coordinator ", gate_.holder(), " is heard again");
    return;
  }
  if (!std::exchange(silent_, true)) {
    LogWarning("heard nothing of coordinator ", gate_.holder(), " for ", lease,
               ": what it has here is kept for it until another one comes");
  }
  if (!options_.memory_wanted || !options_.memory_wanted()) return;
  // The coordinator may still be alive, and must not take cancelled closures for failed ones.
  if (auto coordinator = coordinator_connection_.lock()) {
    coordinator->Close(
        absl::UnavailableError(absl::StrCat(TaskName(), " heard nothing of its coordinator for ",
                                            lease, ", and its machine was short of memory")));
  }
  EndSession(absl::StrCat("nothing heard of it for ", lease, ", and memory is wanted"));
}

void Daemon::RenewByArrivals() {
  const std::shared_ptr<Peer> coordinator = coordinator_.lock();
  if (!gate_.Expired(env_->Monotonic())) return;
  if (coordinator == nullptr || coordinator->connection == nullptr) return;
  if (coordinator->connection != coordinator_connection_.lock()) return;
  const absl::Duration heard = absl::Nanoseconds(coordinator->heard.load());
  // Only forward: the lease ran out, so no message that arrived later than this was handled.
  if (env_->Monotonic() - heard <= gate_.lease()) gate_.Renew(heard);
}

proto::TaskStatus Daemon::MakeStatus() {
  loop_->AssertOnLoop();
  proto::TaskStatus status;
  status.set_job(options_.job);
  status.set_task(options_.task);
  status.set_incarnation(incarnation_);
  status.set_version(kVersion);
  status.set_pid(getpid());
  status.set_host(env::HostName());
  if (gate_.held() && !gate_.Expired(env_->Monotonic())) {
    status.set_held_by(gate_.holder());
    status.set_held_since(absl::ToDoubleSeconds(gate_.since() - absl::UnixEpoch()));
  }
  status.set_frames_received(frames_received_);
  status.set_bytes_received(bytes_received_);
  status.set_bytes_sent(bytes_sent_);
  status.set_uptime_seconds(absl::ToDoubleSeconds(env_->Monotonic() - started_));
  status.set_cpu_seconds(env::ProcessCpuSeconds());
  return status;
}

std::string Daemon::MetricsPrefix() const { return absl::StrCat("coxswain_", options_.job); }

metrics::Families Daemon::CollectMetrics(absl::Duration most) {
  struct Answer {
    absl::Notification there;
    metrics::Families families;
  };
  const auto answer = std::make_shared<Answer>();  // outlives a wait that gave up
  loop_->Post([this, answer] {
    SendMetrics(MakeStatus(), [answer](metrics::Families families) {
      answer->families = std::move(families);
      answer->there.Notify();
    });
  });
  metrics::Families all = TaskInfo(MetricsPrefix(), options_.task);
  if (!answer->there.WaitForNotificationWithTimeout(most)) return all;
  all.insert(all.end(), std::make_move_iterator(answer->families.begin()),
             std::make_move_iterator(answer->families.end()));
  return all;
}

void Daemon::SendMetrics(proto::TaskStatus status, const MetricsDone& done) {
  FillStatus(&status);
  metrics::Families families;
  AddTaskFamilies(MetricsPrefix(), status, &families);
  done(std::move(families));
}

void Daemon::SendStatus(const proto::StatusQuery&, proto::TaskStatus status, const Reply& reply) {
  FillStatus(&status);
  proto::ControlReply message;
  *message.mutable_task_status() = std::move(status);
  reply(std::move(message), {});
}

}  // namespace coxswain::cluster
