// From the connection's threads to the loop (Handler); connecting and greeting; messages by kind;
// the end of a connection, pings, and requests.
#include "coordinator/core/task_session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/base/version.h"
#include "runtime/cluster/control.h"

namespace coxswain::core {
namespace {

// Daemons work on what takes long beside their loop, which answers pings; but a machine that is
// short of memory or cores meanwhile may be late.
constexpr int kBusyLeases = 5;
// Leases within which a task that has taken the connection greets, or it is tried anew.
constexpr int kGreetingLeases = 5;
// Others may come before this coordinator claims a task that answered; then it answers anew. So
// often on one connection.
constexpr int kMaxHellos = 5;
// Frames up to this size are copies already, whatever the transport.
constexpr size_t kCopied = 8 << 10;

// Programs keep what comes here for as long as they like: results of closures, rows. The transport
// may have lent its own memory for it, of which there is little; when all of that is kept,
// nothing comes any more, not even a pong.
void TakeOver(net::Message* message) {
  constexpr size_t kPadding = kBufferAlignment;  // of a slice in a frame, at most
  size_t bytes = message->header.size() + message->payload.size() * kPadding;
  for (const Buffer& slice : message->payload) bytes += slice.size();
  if (bytes <= kCopied) return;
  for (Buffer& slice : message->payload) {
    Buffer copy = Buffer::Allocate(slice.size());
    if (!slice.empty()) std::memcpy(copy.data(), slice.data(), slice.size());
    slice = std::move(copy);
  }
}

// "save_shards".
std::string NameOf(const proto::ControlRequest& request) {
  const auto* field = proto::ControlRequest::descriptor()->FindFieldByNumber(request.body_case());
  return field == nullptr ? "empty" : field->name();
}

}  // namespace

// Brings what happens on one connection to the coordinator's loop.
class TaskSession::Handler final : public net::ConnectionHandler {
 public:
  Handler(std::shared_ptr<env::EventLoop> loop, std::weak_ptr<TaskSession> session, uint64_t life)
      : loop_(std::move(loop)), session_(std::move(session)), life_(life) {}

  void OnMessage(net::Message message) override {
    auto session = session_.lock();
    if (session == nullptr) return;
    TakeOver(&message);
    loop_->Post(
        [session = std::move(session), life = life_, message = std::move(message)]() mutable {
          session->OnMessage(life, std::move(message));
        });
  }

  void OnClosed(absl::Status status) override {
    auto session = session_.lock();
    if (session == nullptr) return;
    loop_->Post(
        [session = std::move(session), life = life_, status] { session->OnClosed(life, status); });
  }

 private:
  std::shared_ptr<env::EventLoop> loop_;
  std::weak_ptr<TaskSession> session_;
  const uint64_t life_;
};

TaskSession::TaskSession(env::Env* env, std::shared_ptr<env::EventLoop> loop,
                         net::Transport* transport, Options options, Events events)
    : env_(env),
      loop_(std::move(loop)),
      transport_(transport),
      options_(std::move(options)),
      events_(std::move(events)),
      expected_(options_.incarnation) {}

std::string TaskSession::name() const {
  return absl::StrCat("/job:", options_.job, "/task:", options_.task);
}

std::string TaskSession::where() const { return absl::StrCat(name(), " at ", options_.address); }

absl::Status TaskSession::Lost(absl::string_view why) const {
  return WithDetail(absl::UnavailableError(absl::StrCat(where(), ": ", why)),
                    {ErrorCause::kTaskLost, true, name(), incarnation_});
}

void TaskSession::Start() { Connect(); }

void TaskSession::Stop() {
  loop_->AssertOnLoop();
  if (stopped_) return;
  stopped_ = true;
  up_ = answered_ = false;
  ++life_;
  if (connection_ != nullptr) connection_->Close(absl::OkStatus());
  connection_ = nullptr;
  auto requests = std::exchange(requests_, {});
  may_block_ = 0;
  for (auto& [id, open] : requests) open.done(Lost("the coordinator ends"));
  events_ = Events{};
}

void TaskSession::Connect() {
  loop_->AssertOnLoop();
  if (stopped_) return;
  const uint64_t life = ++life_;
  answered_ = false;
  hellos_ = 0;
  connection_ = transport_->Connect(options_.address, options_.lease,
                                    std::make_shared<Handler>(loop_, weak_from_this(), life));
  SayHello();
}

void TaskSession::SayHello() {
  proto::HelloRequest hello;
  hello.set_role(proto::COORDINATOR);
  hello.set_epoch(session_.epoch);
  hello.set_nonce(session_.nonce);
  hello.set_expected_epoch(highest_epoch_);
  hello.set_name(options_.coordinator_name);
  hello.set_version(kVersion);
  hello.set_lease_seconds(absl::ToDoubleSeconds(options_.lease));
  hello.set_expected_incarnation(expected_);
  answered_ = false;
  greeting_ = true;
  claims_ = session_.chosen();
  const int number = ++hellos_;
  loop_->PostAfter(
      options_.lease * kGreetingLeases, [weak = weak_from_this(), life = life_, number] {
        auto self = weak.lock();
        if (self == nullptr || self->stopped_ || self->life_ != life || self->hellos_ != number)
          return;
        if (!self->greeting_) return;
        self->Down(
            self->Lost(absl::StrCat("took the connection and said nothing for ",
                                    absl::FormatDuration(self->options_.lease * kGreetingLeases))));
      });
  connection_->Send(cluster::EncodeControl(net::MessageType::kHello, hello));
}

void TaskSession::Claim(const Session& session) {
  loop_->AssertOnLoop();
  session_ = session;
  if (answered_) SayHello();
}

void TaskSession::OnMessage(uint64_t life, net::Message message) {
  loop_->AssertOnLoop();
  if (stopped_ || life != life_) return;
  last_heard_ = env_->Monotonic();
  switch (static_cast<net::MessageType>(message.type)) {
    case net::MessageType::kHelloReply:
      OnHelloReply(message);
      return;
    case net::MessageType::kPong:
      OnPong(message);
      return;
    case net::MessageType::kControlReply:
      OnControlReply(std::move(message));
      return;
    default:
      if (up_) events_.on_data(std::move(message));
  }
}

void TaskSession::OnControlReply(net::Message message) {
  auto reply = cluster::DecodeControl<proto::ControlReply>(message);
  if (!reply.ok()) {
    Down(Lost("sent a reply that is torn"));
    return;
  }
  const auto it = requests_.find(reply->request());
  if (it == requests_.end()) return;
  ResponseFn done = std::move(it->second.done);
  if (it->second.may_block) --may_block_;
  requests_.erase(it);
  absl::Status status = cluster::FromProto(reply->status());
  if (status.ok()) {
    done(Response{*std::move(reply), std::move(message)});
  } else {
    done(std::move(status));
  }
}

// The connection keeps the order of messages both ways. So the task had all requests up to the
// pong's last one, and had answered before it spoke those that it does not name.
void TaskSession::OnPong(const net::Message& message) {
  const auto pong = cluster::DecodeControl<proto::PongReply>(message);
  if (!pong.ok()) {
    Down(Lost("sent a pong that is torn"));
    return;
  }
  if (up_ && pong->ending() && !std::exchange(ending_, true) && events_.on_ending) {
    events_.on_ending();
    if (!up_) return;
  }
  uint64_t last = pong->last_request();
  const auto& open = pong->open_requests();
  if (pong->more_open()) last = open.empty() ? 0 : std::min(last, *open.rbegin());
  for (const auto& [id, request] : requests_) {
    if (id > last) return;
    if (std::binary_search(open.begin(), open.end(), id)) continue;
    Down(Lost(absl::StrCat("neither answered request ", id, " (", request.waiting.what,
                           ") nor works on it: one of the two messages was lost")));
    return;
  }
}

absl::Status TaskSession::CheckGreeting(const proto::HelloReply& hello) const {
  if (hello.version() != kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("it runs version ", hello.version(), ", this is version ", kVersion));
  }
  RETURN_IF_ERROR(cluster::FromProto(hello.status()));
  if (hello.job() != options_.job || hello.task() != options_.task) {
    return absl::InvalidArgumentError(absl::StrCat("the cluster names it ", name(),
                                                   ", but it says that it is /job:", hello.job(),
                                                   "/task:", hello.task()));
  }
  if (expected_ != 0 && hello.incarnation() != expected_) {
    return absl::FailedPreconditionError("it is another process than the one that is meant");
  }
  return absl::OkStatus();
}

void TaskSession::OnHelloReply(const net::Message& message) {
  if (!greeting_) return;
  greeting_ = false;
  const auto hello = cluster::DecodeControl<proto::HelloReply>(message);
  if (!hello.ok()) {
    Down(Named(hello.status()));
    return;
  }
  if (absl::Status status = CheckGreeting(*hello); !status.ok()) {
    Refused(*hello, status);
    return;
  }
  highest_epoch_ = hello->highest_epoch();
  if (!claims_) {
    Answered();
    return;
  }
  // Another process behind the address has nothing of this session either.
  fresh_ = hello->fresh() || hello->incarnation() != incarnation_;
  incarnation_ = hello->incarnation();
  up_ = true;
  ending_ = false;
  SchedulePing();
  events_.on_up();
}

void TaskSession::Refused(const proto::HelloReply& hello, const absl::Status& status) {
  const auto detail = GetDetail(status);
  const ErrorCause cause = detail ? detail->cause : ErrorCause::kUnknown;
  const absl::Status reason = Named(status);
  const bool others = cause == ErrorCause::kStaleEpoch || cause == ErrorCause::kClusterHeld;
  if (others && incarnation_ != 0 && incarnation_ == hello.incarnation()) {
    incarnation_ = 0;  // should it be free once more, it is like any other
    Down(WithDetail(reason, {ErrorCause::kStaleEpoch, false, name(), hello.incarnation()}));
    return;
  }
  highest_epoch_ = hello.highest_epoch();
  if (cause == ErrorCause::kStaleEpoch && hellos_ < kMaxHellos) {
    Answered();
  } else {
    Down(reason);
  }
}

void TaskSession::Answered() {
  answered_ = true;
  events_.on_answered();
}

void TaskSession::OnClosed(uint64_t life, absl::Status status) {
  loop_->AssertOnLoop();
  if (stopped_ || life != life_) return;
  absl::Status lost = Lost(status.ok() ? "closed the connection" : std::string(status.message()));
  if (const auto detail = GetDetail(status); detail && detail->cause == ErrorCause::kTerminated) {
    lost = WithDetail(lost, {ErrorCause::kTerminated, true, name(), incarnation_});
  }
  // A daemon that asks for a secret has none to ask this process for.
  if (absl::IsUnauthenticated(status) && !GetDetail(status)) {
    status = WithDetail(status, {ErrorCause::kConfiguration, false, "", 0});
  }
  // The wrong secret, say: that is not about to change.
  if (const auto detail = GetDetail(status);
      detail && detail->cause == ErrorCause::kConfiguration) {
    lost = Annotate(status, name());
  }
  Down(std::move(lost));
}

void TaskSession::Down(absl::Status reason) {
  ++life_;
  if (connection_ != nullptr) connection_->Close(reason);
  connection_ = nullptr;
  const bool was_up = std::exchange(up_, false);
  answered_ = greeting_ = false;
  auto requests = std::exchange(requests_, {});
  may_block_ = 0;
  for (auto& [id, open] : requests) open.done(reason);
  if (stopped_) return;
  if (was_up) {
    events_.on_down(reason);
  } else {
    events_.on_refused(reason);
  }
  if (stopped_) return;
  loop_->PostAfter(options_.reconnect_interval, [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->Connect();
  });
}

void TaskSession::SchedulePing() {
  const absl::Duration every = options_.lease / 4, due = env_->Monotonic() + every;
  loop_->PostAfter(every, [weak = weak_from_this(), life = life_, every, due] {
    auto self = weak.lock();
    if (self == nullptr || self->stopped_ || self->life_ != life || !self->up_) return;
    // While this process itself stood still it could not hear anything.
    const absl::Duration now = self->env_->Monotonic(), late = now - due;
    if (late > every) self->last_heard_ = std::min(now, self->last_heard_ + late - every);
    const absl::Duration patience =
        self->options_.lease * (self->may_block_ == 0 ? 1 : kBusyLeases);
    if (now - self->last_heard_ > patience) {
      self->Down(self->Lost(absl::StrCat("nothing heard for ", absl::FormatDuration(patience))));
      return;
    }
    proto::PingRequest ping;
    ping.set_session(self->session_.id());
    ping.set_low_water(self->events_.low_water());
    ping.set_last_request(self->last_request_);
    self->Send(cluster::EncodeControl(net::MessageType::kPing, ping));
    self->SchedulePing();
  });
}

void TaskSession::Request(proto::ControlRequest request, std::vector<Buffer> payload,
                          ResponseFn done) {
  loop_->AssertOnLoop();
  if (!up_) {
    done(Lost("not connected"));
    return;
  }
  const uint64_t id = ++last_request_;
  request.set_session(session_.id());
  request.set_request(id);
  net::Message message = cluster::EncodeControl(net::MessageType::kControl, request);
  message.payload = std::move(payload);
  if (const size_t bytes = message.wire_bytes(); bytes > max_message_bytes()) {
    done(absl::ResourceExhaustedError(absl::StrCat("a request to ", name(), " has ", bytes,
                                                   " bytes, and at most ", max_message_bytes(),
                                                   " can travel at once")));
    return;
  }
  const bool may_block = request.has_create_shards() || request.has_restore_shards() ||
                         request.has_register_dataset() || request.has_register_values();
  if (may_block) ++may_block_;
  requests_[id] = {std::move(done), {NameOf(request), env_->Monotonic()}, may_block};
  Send(std::move(message));
}

std::optional<TaskSession::Waiting> TaskSession::oldest_request() const {
  loop_->AssertOnLoop();
  if (requests_.empty()) return std::nullopt;
  return requests_.begin()->second.waiting;
}

void TaskSession::LetGo() {
  proto::ControlRequest request;
  request.mutable_let_go();
  Request(std::move(request), {}, [](const auto&) {});
}

void TaskSession::Send(net::Message message) {
  loop_->AssertOnLoop();
  if (connection_ != nullptr && up_) connection_->Send(std::move(message));
}

}  // namespace coxswain::core
