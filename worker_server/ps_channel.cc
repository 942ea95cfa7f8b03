#include "worker_server/ps_channel.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/cluster/control.h"
#include "runtime/net/message_type.h"

namespace coxswain {
namespace {

constexpr absl::Duration kReconnectInterval = absl::Milliseconds(100);

}  // namespace

// One life of the connection. Once broken it stays broken.
class PsChannel::Stream final : public ConnectionHandler {
 public:
  Stream(std::string task, Incarnation incarnation, Ready ready)
      : task_(std::move(task)), incarnation_(incarnation), ready_(std::move(ready)) {}

  void set_connection(std::shared_ptr<Connection> connection) {
    absl::MutexLock lock(&mu_);
    connection_ = std::move(connection);
  }

  bool broken() const {
    absl::MutexLock lock(&mu_);
    return !broken_.ok();
  }

  void Call(SegmentRequest request, Done done) {
    std::shared_ptr<Connection> connection;
    absl::Status broken;
    {
      absl::MutexLock lock(&mu_);
      broken = broken_;
      if (broken.ok()) {
        request.call = ++last_call_;
        calls_.emplace(request.call, std::move(done));
        connection = connection_;
      }
    }
    if (!broken.ok()) {
      done(broken);
      return;
    }
    connection->Send(Encode(std::move(request)));
  }

  void Break(absl::Status reason) {
    absl::flat_hash_map<uint64_t, Done> calls;
    std::shared_ptr<Connection> connection;
    Ready ready;
    {
      absl::MutexLock lock(&mu_);
      if (!broken_.ok()) return;
      broken_ = reason;
      calls.swap(calls_);
      connection = std::move(connection_);
      ready = std::exchange(ready_, nullptr);
    }
    if (connection != nullptr) connection->Close(reason);
    if (ready) ready(reason);
    for (auto& [id, done] : calls) done(reason);
  }

  void OnMessage(Message message) override {
    if (message.type == static_cast<uint16_t>(MessageType::kHelloReply)) {
      OnHelloReply(message);
      return;
    }
    auto reply = DecodeSegmentReply(std::move(message));
    if (!reply.ok()) {
      Break(Lost(absl::StrCat("sent what is no reply: ", reply.status().message())));
      return;
    }
    Done done;
    {
      absl::MutexLock lock(&mu_);
      const auto it = calls_.find(reply->call);
      if (it == calls_.end()) return;  // sent twice
      done = std::move(it->second);
      calls_.erase(it);
    }
    if (reply->status.ok()) {
      done(std::move(reply->tensors));
    } else {
      done(reply->status);
    }
  }

  void OnClosed(absl::Status status) override {
    Break(Lost(status.ok() ? "closed the stream" : std::string(status.message())));
  }

 private:
  void OnHelloReply(const Message& message) {
    auto hello = DecodeControl<proto::HelloReply>(message);
    absl::Status status = hello.ok() ? FromProto(hello->status()) : hello.status();
    if (!status.ok()) {
      Break(Lost(absl::StrCat("refused this worker: ", status.message())));
      return;
    }
    Ready ready;
    {
      absl::MutexLock lock(&mu_);
      ready = std::exchange(ready_, nullptr);
    }
    if (ready) ready(absl::OkStatus());
  }

  absl::Status Lost(absl::string_view why) const {
    return WithDetail(absl::UnavailableError(absl::StrCat(task_, ": ", why)),
                      {ErrorCause::kTaskLost, true, task_, incarnation_});
  }

  const std::string task_;
  const Incarnation incarnation_;
  mutable absl::Mutex mu_;
  Ready ready_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Connection> connection_ ABSL_GUARDED_BY(mu_);
  absl::Status broken_ ABSL_GUARDED_BY(mu_);
  uint64_t last_call_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<uint64_t, Done> calls_ ABSL_GUARDED_BY(mu_);
};

PsChannel::PsChannel(Env* env, Transport* transport, Options options)
    : env_(env), transport_(transport), options_(std::move(options)) {}

std::shared_ptr<PsChannel::Stream> PsChannel::Connect(Ready ready) {
  const std::string task = absl::StrCat("/job:ps/task:", options_.ps);
  auto stream = std::make_shared<Stream>(task, options_.incarnation, std::move(ready));
  auto connection = transport_->Connect(options_.address, options_.connect_timeout, stream);
  stream->set_connection(connection);
  proto::HelloRequest hello;
  hello.set_role(proto::WORKER);
  hello.set_epoch(options_.epoch);
  hello.set_name(absl::StrCat("/job:worker/task:", options_.worker));
  hello.set_task(options_.worker);
  hello.set_incarnation(options_.worker_incarnation);
  hello.set_expected_incarnation(options_.incarnation);
  connection->Send(EncodeControl(MessageType::kHello, hello));
  return stream;
}

void PsChannel::Open(Ready ready) {
  // Without the lock: in process, the answer comes before Connect returns.
  auto stream = Connect(std::move(ready));
  absl::MutexLock lock(&mu_);
  stream_ = std::move(stream);
  last_connect_ = env_->Monotonic();
}

void PsChannel::Call(SegmentRequest request, Done done) {
  std::shared_ptr<Stream> stream;
  absl::Status closed;
  bool reconnect = false;
  {
    absl::MutexLock lock(&mu_);
    closed = closed_;
    stream = stream_;
    if (closed.ok() && stream->broken() && env_->Monotonic() - last_connect_ > kReconnectInterval) {
      last_connect_ = env_->Monotonic();
      reconnect = true;
    }
    ++frames_;
    for (const Tensor& t : request.tensors) bytes_sent_ += t.bytes();
  }
  if (!closed.ok()) {
    done(closed);
    return;
  }
  if (reconnect) {
    stream = Connect([](absl::Status) {});
    absl::MutexLock lock(&mu_);
    stream_ = stream;
  }
  stream->Call(std::move(request), std::move(done));
}

void PsChannel::Close(absl::Status reason) {
  std::shared_ptr<Stream> stream;
  {
    absl::MutexLock lock(&mu_);
    if (!closed_.ok()) return;
    closed_ = reason;
    stream = stream_;
  }
  if (stream != nullptr) stream->Break(reason);
}

uint64_t PsChannel::frames() const {
  absl::MutexLock lock(&mu_);
  return frames_;
}

uint64_t PsChannel::bytes_sent() const {
  absl::MutexLock lock(&mu_);
  return bytes_sent_;
}

}  // namespace coxswain
