#include "runtime/cluster/daemon.h"

#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/base/version.h"
#include "runtime/cluster/control.h"

namespace coxswain {
namespace {

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::string HostName() {
  char name[256] = {};  // the last byte stays 0
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

bool IsData(const Message& message) {
  switch (static_cast<MessageType>(message.type)) {
    case MessageType::kHello:
    case MessageType::kPing:
    case MessageType::kControl:
      return false;
    default:
      return true;
  }
}

}  // namespace

// Brings what happens on one connection to the daemon's loop, or at once to whoever takes it. It
// holds no daemon memory of its own: the listener's destructor waits until no handler runs.
class Daemon::Handler final : public ConnectionHandler {
 public:
  Handler(Daemon* daemon, std::shared_ptr<Connection> connection)
      : daemon_(daemon), peer_(daemon->NewPeer()) {
    peer_->connection = std::move(connection);
  }

  void OnMessage(Message message) override {
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

  void OnClosed(absl::Status) override {
    daemon_->loop_->Post([peer = peer_] {
      peer->greeted = false;
      peer->connection = nullptr;
    });
  }

 private:
  Daemon* daemon_;
  std::shared_ptr<Peer> peer_;
};

Daemon::Daemon(Env* env, Transport* transport, DaemonOptions options)
    : env_(env),
      transport_(transport),
      options_(std::move(options)),
      incarnation_(env->Random64() | 1),  // never 0
      started_(env->Monotonic()),
      loop_(env->NewLoop()),
      trace_(env) {}

Daemon::~Daemon() { Stop(); }

absl::Status Daemon::Start() {
  ASSIGN_OR_RETURN(listener_, transport_->Listen(
                                  options_.address, [this](std::shared_ptr<Connection> connection) {
                                    return std::make_shared<Handler>(this, std::move(connection));
                                  }));
  return absl::OkStatus();
}

void Daemon::Stop() {
  listener_.reset();
  loop_.reset();
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

void Daemon::OnMessage(const std::shared_ptr<Peer>& peer, Message message) {
  if (peer->connection == nullptr) return;  // closed meanwhile
  ++frames_received_;
  bytes_received_ += message.header.size() + message.payload_bytes();
  const auto type = static_cast<MessageType>(message.type);
  if (type == MessageType::kHello) {
    OnHello(peer.get(), message);
    return;
  }
  if (!peer->greeted) {
    peer->connection->Close(absl::FailedPreconditionError("the first message must be a hello"));
    return;
  }
  // What comes late on a connection that the coordinator gave up is of a time before its new one.
  if (peer->role == proto::COORDINATOR && coordinator_connection_.lock() != peer->connection) {
    peer->connection->Close(absl::FailedPreconditionError("a newer connection has taken over"));
    return;
  }
  // A worker that was set up for a session that ended; also when its coordinator began another one
  // here and has not brought back yet what the worker knows of.
  if (peer->role == proto::WORKER && type != MessageType::kPing && !IsOfSession(*peer)) {
    peer->connection->Close(
        WithDetail(absl::UnavailableError(absl::StrCat(TaskName(), " has lost its session")),
                   {ErrorCause::kTaskLost, true, TaskName(), incarnation_}));
    return;
  }
  switch (type) {
    case MessageType::kPing:
      OnPing(peer.get(), message);
      return;
    case MessageType::kControl:
      OnControlMessage(peer, std::move(message));
      return;
    default:
      OnData(peer.get(), std::move(message));
  }
}

// A coordinator keeps its lease by it; a worker that waits for a PS asks whether it is still there.
void Daemon::OnPing(Peer* peer, const Message& message) {
  const auto ping = DecodeControl<proto::PingRequest>(message);
  if (!ping.ok() || peer->role == proto::OBSERVER || !gate_.Check(ping->epoch()).ok()) {
    peer->connection->Close(absl::FailedPreconditionError("ping of another epoch"));
    return;
  }
  if (peer->role == proto::COORDINATOR) {
    gate_.Renew(env_->Monotonic());
    OnLowWater(ping->low_water());
  }
  proto::PongReply pong;
  pong.set_epoch(ping->epoch());
  pong.set_incarnation(incarnation_);
  peer->connection->Send(EncodeControl(MessageType::kPong, pong));
}

void Daemon::OnHello(Peer* peer, const Message& message) {
  proto::HelloReply reply;
  absl::Status status;
  if (auto hello = DecodeControl<proto::HelloRequest>(message); hello.ok()) {
    bool fresh = false;
    status = Greet(peer, *hello, &fresh);
    reply.set_fresh(fresh);
  } else {
    status = hello.status();
  }
  *reply.mutable_status() = ToProto(status);
  reply.set_job(options_.job);
  reply.set_task(options_.task);
  reply.set_incarnation(incarnation_);
  reply.set_version(kVersion);
  reply.set_highest_epoch(gate_.highest_epoch());
  peer->greeted = status.ok();
  peer->connection->Send(EncodeControl(MessageType::kHelloReply, reply));
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
      RETURN_IF_ERROR(gate_.Check(hello.epoch()));
      if (hello.expected_incarnation() != incarnation_) {
        return WithDetail(absl::FailedPreconditionError(absl::StrCat(TaskName(), " was restarted")),
                          {ErrorCause::kTaskLost, true, TaskName(), incarnation_});
      }
      return absl::OkStatus();
    }
    case proto::COORDINATOR: {
      if (terminating_) return Terminated();
      const bool was_held = gate_.held();
      RETURN_IF_ERROR(gate_.Hello(hello, env_->Monotonic(), env_->Now(), fresh));
      // First, so that what the end of its session cancels is not reported to it as failed.
      if (auto old = coordinator_connection_.lock(); old != nullptr && old != peer->connection) {
        old->Close(absl::UnavailableError("a newer connection has taken over"));
      }
      coordinator_connection_ = peer->connection;
      if (*fresh) {
        ++session_;
        session_used_ = false;
        trace_.Enable(false);
        if (was_held) OnSessionEnd();
        LogInfo("session of coordinator ", hello.name(), " begins, epoch ", hello.epoch());
      }
      // The hello that began the session may have come late, from an attempt to connect that nobody
      // waited for any more: this one, too, finds nothing here.
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

void Daemon::OnControlMessage(const std::shared_ptr<Peer>& peer, Message message) {
  auto request = DecodeControl<proto::ControlRequest>(message);
  if (!request.ok()) {
    peer->connection->Close(request.status());
    return;
  }
  // The reply may come from another thread, when the connection is long gone.
  Reply reply = [connection = peer->connection, id = request->request()](
                    proto::ControlReply r, std::vector<Buffer> payload) {
    r.set_request(id);
    Message m = EncodeControl(MessageType::kControlReply, r);
    m.payload = std::move(payload);
    connection->Send(std::move(m));
  };
  if (request->has_status()) {
    SendStatus(MakeStatus(), reply);
    return;
  }
  absl::Status allowed = peer->role == proto::COORDINATOR
                             ? gate_.Check(request->epoch())
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
  OnControl(*request, std::move(message), std::move(reply));
}

void Daemon::Trace(const proto::TraceQuery& query, const Reply& reply) {
  trace_.Enable(query.enable());
  proto::ControlReply message;
  trace_.Drain(TraceRecorder::kMostAtOnce, message.mutable_trace());
  reply(std::move(message), {});
}

absl::Status Daemon::Terminated() const {
  return WithDetail(absl::UnavailableError(absl::StrCat(TaskName(), " was asked to end")),
                    {ErrorCause::kTerminated, true, TaskName(), incarnation_});
}

void Daemon::Terminate(std::function<void()> done) {
  loop_->Post([this, done = std::move(done)] {
    terminating_ = true;
    if (auto coordinator = coordinator_connection_.lock()) coordinator->Close(Terminated());
    done();
  });
}

void Daemon::EndSession(absl::string_view why) {
  if (!gate_.Release()) return;
  LogInfo("session of coordinator ", gate_.holder(), " ends: ", why);
  ++session_;
  trace_.Enable(false);
  OnSessionEnd();
}

void Daemon::WatchLease() {
  if (watching_) return;
  watching_ = true;
  loop_->PostAfter(gate_.lease() / 2, [this] {
    watching_ = false;
    if (!gate_.held()) return;
    if (gate_.Expired(env_->Monotonic())) {
      // It may be there still, and must not take what is cancelled now for failed closures.
      if (auto coordinator = coordinator_connection_.lock()) {
        coordinator->Close(absl::UnavailableError(
            absl::StrCat(TaskName(), " heard nothing of its coordinator for ",
                         absl::FormatDuration(gate_.lease()))));
      }
      EndSession(absl::StrCat("nothing heard of it for ", absl::FormatDuration(gate_.lease())));
    } else {
      WatchLease();
    }
  });
}

proto::TaskStatus Daemon::MakeStatus() {
  proto::TaskStatus status;
  status.set_job(options_.job);
  status.set_task(options_.task);
  status.set_incarnation(incarnation_);
  status.set_version(kVersion);
  status.set_pid(getpid());
  status.set_host(HostName());
  if (gate_.held()) {
    status.set_held_by(gate_.holder());
    status.set_epoch(gate_.epoch());
    status.set_held_since(absl::ToDoubleSeconds(gate_.since() - absl::UnixEpoch()));
  }
  status.set_frames_received(frames_received_);
  status.set_bytes_received(bytes_received_);
  status.set_bytes_sent(bytes_sent_);
  status.set_uptime_seconds(absl::ToDoubleSeconds(env_->Monotonic() - started_));
  status.set_cpu_seconds(CpuSeconds());
  return status;
}

void Daemon::SendStatus(proto::TaskStatus status, const Reply& reply) {
  FillStatus(&status);
  proto::ControlReply message;
  *message.mutable_task_status() = std::move(status);
  reply(std::move(message), {});
}

}  // namespace coxswain
