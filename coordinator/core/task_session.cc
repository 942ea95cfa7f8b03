#include "coordinator/core/task_session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/base/version.h"
#include "runtime/cluster/control.h"

namespace coxswain {
namespace {

// Daemons work on what takes long beside their loop, which answers pings; but a machine that is
// short of memory or cores meanwhile may be late.
constexpr int kBusyLeases = 5;
// A task that has taken the connection greets within so many leases, or it is tried anew.
constexpr int kGreetingLeases = 5;

}  // namespace

// Brings what happens on one connection to the coordinator's loop.
class TaskSession::Handler final : public ConnectionHandler {
 public:
  Handler(std::shared_ptr<EventLoop> loop, std::weak_ptr<TaskSession> session, uint64_t life)
      : loop_(std::move(loop)), session_(std::move(session)), life_(life) {}

  void OnMessage(Message message) override {
    auto session = session_.lock();
    if (session == nullptr) return;
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
  std::shared_ptr<EventLoop> loop_;
  std::weak_ptr<TaskSession> session_;
  const uint64_t life_;
};

TaskSession::TaskSession(Env* env, std::shared_ptr<EventLoop> loop, Transport* transport,
                         Options options, Events events)
    : env_(env),
      loop_(std::move(loop)),
      transport_(transport),
      options_(std::move(options)),
      events_(std::move(events)) {}

std::string TaskSession::name() const {
  return absl::StrCat("/job:", options_.job, "/task:", options_.task);
}

absl::Status TaskSession::Lost(absl::string_view why) const {
  return WithDetail(
      absl::UnavailableError(absl::StrCat(name(), " at ", options_.address, ": ", why)),
      {ErrorCause::kTaskLost, true, name(), incarnation_});
}

void TaskSession::Start() { Connect(); }

void TaskSession::Stop() {
  if (stopped_) return;
  stopped_ = true;
  up_ = false;
  ++life_;
  if (connection_ != nullptr) connection_->Close(absl::OkStatus());
  connection_ = nullptr;
  auto requests = std::exchange(requests_, {});
  may_block_ = 0;
  for (auto& [id, open] : requests) open.done(Lost("the coordinator ends"));
  events_ = Events{};
}

void TaskSession::Connect() {
  if (stopped_) return;
  const uint64_t life = ++life_;
  connection_ = transport_->Connect(options_.address, options_.lease,
                                    std::make_shared<Handler>(loop_, weak_from_this(), life));
  proto::HelloRequest hello;
  hello.set_role(proto::COORDINATOR);
  hello.set_epoch(options_.epoch);
  hello.set_name(options_.coordinator_name);
  hello.set_lease_seconds(absl::ToDoubleSeconds(options_.lease));
  connection_->Send(EncodeControl(MessageType::kHello, hello));
  loop_->PostAfter(options_.lease * kGreetingLeases, [weak = weak_from_this(), life] {
    auto self = weak.lock();
    if (self == nullptr || self->stopped_ || self->life_ != life || self->up_) return;
    self->Down(
        self->Lost(absl::StrCat("took the connection and said nothing for ",
                                absl::FormatDuration(self->options_.lease * kGreetingLeases))));
  });
}

void TaskSession::OnMessage(uint64_t life, Message message) {
  if (stopped_ || life != life_) return;
  last_heard_ = env_->Monotonic();
  switch (static_cast<MessageType>(message.type)) {
    case MessageType::kHelloReply:
      OnHelloReply(message);
      return;
    case MessageType::kPong:
      return;
    case MessageType::kControlReply: {
      auto reply = DecodeControl<proto::ControlReply>(message);
      if (!reply.ok()) {
        Down(Lost("sent a reply that is torn"));
        return;
      }
      const auto it = requests_.find(reply->request());
      if (it == requests_.end()) return;
      ResponseFn done = std::move(it->second.done);
      if (it->second.may_block) --may_block_;
      requests_.erase(it);
      absl::Status status = FromProto(reply->status());
      if (status.ok()) {
        done(Response{*std::move(reply), std::move(message)});
      } else {
        done(std::move(status));
      }
      return;
    }
    default:
      if (up_) events_.on_data(std::move(message));
  }
}

void TaskSession::OnHelloReply(const Message& message) {
  auto hello = DecodeControl<proto::HelloReply>(message);
  absl::Status status = hello.ok() ? FromProto(hello->status()) : hello.status();
  if (status.ok() && (hello->job() != options_.job || hello->task() != options_.task)) {
    status = absl::InvalidArgumentError(absl::StrCat("the cluster names it ", name(),
                                                     ", but it says that it is /job:", hello->job(),
                                                     "/task:", hello->task()));
  }
  if (status.ok() && hello->version() != kVersion) {
    status = absl::FailedPreconditionError(
        absl::StrCat("it runs version ", hello->version(), ", this is version ", kVersion));
  }
  if (!status.ok()) {
    Down(Annotate(status, absl::StrCat(name(), " at ", options_.address)));
    return;
  }
  // Another process behind the address has nothing of this session either.
  fresh_ = hello->fresh() || hello->incarnation() != incarnation_;
  incarnation_ = hello->incarnation();
  up_ = true;
  SchedulePing();
  events_.on_up();
}

void TaskSession::OnClosed(uint64_t life, absl::Status status) {
  if (stopped_ || life != life_) return;
  absl::Status lost = Lost(status.ok() ? "closed the connection" : std::string(status.message()));
  if (const auto detail = GetDetail(status); detail && detail->cause == ErrorCause::kTerminated) {
    lost = WithDetail(lost, {ErrorCause::kTerminated, true, name(), incarnation_});
  }
  Down(std::move(lost));
}

void TaskSession::Down(absl::Status reason) {
  ++life_;
  if (connection_ != nullptr) connection_->Close(reason);
  connection_ = nullptr;
  const bool was_up = std::exchange(up_, false);
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
  loop_->PostAfter(options_.lease / 4, [weak = weak_from_this(), life = life_] {
    auto self = weak.lock();
    if (self == nullptr || self->stopped_ || self->life_ != life || !self->up_) return;
    const absl::Duration patience =
        self->options_.lease * (self->may_block_ == 0 ? 1 : kBusyLeases);
    if (self->env_->Monotonic() - self->last_heard_ > patience) {
      self->Down(self->Lost(absl::StrCat("nothing heard for ", absl::FormatDuration(patience))));
      return;
    }
    proto::PingRequest ping;
    ping.set_epoch(self->options_.epoch);
    ping.set_low_water(self->events_.low_water());
    self->Send(EncodeControl(MessageType::kPing, ping));
    self->SchedulePing();
  });
}

void TaskSession::Request(proto::ControlRequest request, std::vector<Buffer> payload,
                          ResponseFn done) {
  if (!up_) {
    done(Lost("not connected"));
    return;
  }
  const uint64_t id = ++last_request_;
  request.set_epoch(options_.epoch);
  request.set_request(id);
  const bool may_block =
      request.has_create_shards() || request.has_restore_shards() || request.has_register_dataset();
  if (may_block) ++may_block_;
  requests_[id] = {std::move(done), may_block};
  Message message = EncodeControl(MessageType::kControl, request);
  message.payload = std::move(payload);
  Send(std::move(message));
}

void TaskSession::Send(Message message) {
  if (connection_ != nullptr && up_) connection_->Send(std::move(message));
}

}  // namespace coxswain
