// Connecting and greeting, calls and their replies, the end of a stream, and the watch over
// silence.
#include "worker_server/ps_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/cluster/control.h"
#include "runtime/net/message_type.h"
#include "runtime/tensor/within_memory.h"

namespace coxswain::worker {
namespace {

// Silence is counted in ticks of the timer, not read off a clock: a process that was stopped itself
// must not blame the PS for that time.
constexpr int kTicks = 4;  // in a silence timeout
constexpr int kPingAfter = 2;

}  // namespace

PsChannel::Stream::Stream(env::EventLoop* loop, const Options& options, Ready ready)
    : loop_(loop), options_(options), task_(absl::StrCat("/job:ps/task:", options.ps)) {
  if (ready) ready_.push_back(std::move(ready));
}

void PsChannel::Stream::Connect(net::Transport* transport) {
  auto connection =
      transport->Connect(options_.address, options_.connect_timeout, shared_from_this());
  proto::HelloRequest hello;
  hello.set_role(proto::WORKER);
  hello.set_session(options_.session);
  hello.set_generation(options_.generation);
  hello.set_name(absl::StrCat("/job:worker/task:", options_.worker));
  hello.set_task(options_.worker);
  hello.set_incarnation(options_.worker_incarnation);
  hello.set_expected_incarnation(options_.incarnation);
  bool tick = false;
  {
    absl::MutexLock lock(&mu_);
    if (!broken_.ok()) return;  // the connection goes with its handle
    connection_ = connection;
    tick = StartWatch();
  }
  connection->Send(cluster::EncodeControl(net::MessageType::kHello, hello));
  if (tick) ScheduleTick();
}

bool PsChannel::Stream::broken() const {
  absl::MutexLock lock(&mu_);
  return !broken_.ok();
}

void PsChannel::Stream::WhenReady(Ready ready) {
  absl::Status status;
  bool tick = false;
  {
    absl::MutexLock lock(&mu_);
    if (broken_.ok() && !greeted_) {
      ready_.push_back(std::move(ready));
      tick = StartWatch();
    }
    status = broken_;
  }
  if (tick) ScheduleTick();
  if (ready) ready(std::move(status));
}

void PsChannel::Stream::Call(Calls calls) {
  std::shared_ptr<net::Connection> connection;
  absl::Status broken;
  bool tick = false;
  {
    absl::MutexLock lock(&mu_);
    broken = broken_;
    if (broken.ok()) {
      for (auto& [request, done] : calls) {
        request.call = ++last_call_;
        calls_.emplace(request.call, std::move(done));
      }
      connection = connection_;
      tick = StartWatch();
    }
  }
  if (!broken.ok()) {
    for (auto& [request, done] : calls) done(broken);
    return;
  }
  std::vector<net::Message> frames;
  frames.reserve(calls.size());
  const size_t most = connection->max_message_bytes();
  for (auto& [request, done] : calls) {
    const uint64_t call = request.call;
    net::Message frame = function::Encode(std::move(request));
    if (const size_t bytes = frame.wire_bytes(); bytes > most) {
      Fail(call, function::TooLargeToSend(absl::StrCat("the frame to ", task_), bytes, most, task_,
                                          options_.incarnation));
    } else {
      frames.push_back(std::move(frame));
    }
  }
  if (frames.size() == 1) {
    connection->Send(std::move(frames[0]));
  } else {
    for (net::Message& joined :
         function::JoinMessagesWithin(most, net::MessageType::kFrames, std::move(frames))) {
      connection->Send(std::move(joined));
    }
  }
  if (tick) ScheduleTick();
}

void PsChannel::Stream::Fail(uint64_t call, absl::Status status) {
  Done done;
  {
    absl::MutexLock lock(&mu_);
    const auto it = calls_.find(call);
    if (it == calls_.end()) return;  // the stream has broken, and told it
    done = std::move(it->second);
    calls_.erase(it);
  }
  done(std::move(status));
}

void PsChannel::Stream::Break(absl::Status reason) {
  std::vector<std::pair<uint64_t, Done>> calls;
  std::shared_ptr<net::Connection> connection;
  std::vector<Ready> ready;
  {
    absl::MutexLock lock(&mu_);
    if (!broken_.ok()) return;
    broken_ = reason;
    calls.reserve(calls_.size());
    for (auto& [id, done] : calls_) calls.emplace_back(id, std::move(done));
    calls_.clear();
    connection = std::move(connection_);
    ready.swap(ready_);
  }
  const auto detail = GetDetail(reason);
  if (detail && detail->task == task_ && !calls.empty()) {
    LogWarning("lost the stream to ", reason.message(), "; ", calls.size(),
               " calls under way fail, and the coordinator decides what becomes of them");
  }
  if (connection != nullptr) connection->Close(reason);
  for (Ready& r : ready) r(reason);
  std::sort(calls.begin(), calls.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [id, done] : calls) done(reason);
}

void PsChannel::Stream::OnMessage(net::Message message) {
  heard_.store(true, std::memory_order_relaxed);
  if (options_.traffic != nullptr) {
    options_.traffic->bytes_received.fetch_add(message.payload_bytes(), std::memory_order_relaxed);
  }
  if (message.type == static_cast<uint16_t>(net::MessageType::kHelloReply)) {
    OnHelloReply(message);
    return;
  }
  if (message.type == static_cast<uint16_t>(net::MessageType::kPong)) return;
  if (message.type != static_cast<uint16_t>(net::MessageType::kFrameReplies)) {
    OnReply(std::move(message));
    return;
  }
  auto parts = WithinMemory([&] { return function::SplitMessages(std::move(message)); });
  if (!parts.ok()) {
    Break(Lost(absl::StrCat("sent what is no reply: ", parts.status().message())));
    return;
  }
  for (net::Message& part : *parts) {
    if (!OnReply(std::move(part))) return;
  }
}

bool PsChannel::Stream::OnReply(net::Message message) {
  auto reply = WithinMemory([&] { return function::DecodeSegmentReply(std::move(message)); });
  if (!reply.ok()) {
    Break(Lost(absl::StrCat("sent what is no reply: ", reply.status().message())));
    return false;
  }
  Done done;
  {
    absl::MutexLock lock(&mu_);
    const auto it = calls_.find(reply->call);
    if (it == calls_.end()) return true;  // sent twice
    done = std::move(it->second);
    calls_.erase(it);
  }
  if (reply->status.ok()) {
    done(std::move(reply->tensors));
  } else {
    done(reply->status);
  }
  return true;
}

void PsChannel::Stream::OnClosed(absl::Status status) {
  Break(Lost(status.ok() ? "closed the stream" : std::string(status.message())));
}

void PsChannel::Stream::OnHelloReply(const net::Message& message) {
  auto hello = cluster::DecodeControl<proto::HelloReply>(message);
  absl::Status status = hello.ok() ? cluster::FromProto(hello->status()) : hello.status();
  if (!status.ok()) {
    Break(Lost(absl::StrCat("refused this worker: ", status.message())));
    return;
  }
  std::vector<Ready> ready;
  {
    absl::MutexLock lock(&mu_);
    greeted_ = true;
    ready.swap(ready_);
  }
  for (Ready& r : ready) r(absl::OkStatus());
}

absl::Status PsChannel::Stream::Lost(absl::string_view why) const {
  return WithDetail(absl::UnavailableError(absl::StrCat(task_, ": ", why)),
                    {ErrorCause::kTaskLost, true, task_, options_.incarnation});
}

bool PsChannel::Stream::StartWatch() {
  if (watching_ || !waiting()) return false;
  heard_.store(false, std::memory_order_relaxed);
  silent_ticks_ = 0;
  watching_ = true;
  return true;
}

void PsChannel::Stream::ScheduleTick() {
  loop_->PostAfter(options_.silence_timeout / kTicks, [weak = weak_from_this()] {
    if (auto stream = weak.lock()) stream->OnTick();
  });
}

// What is awaited now was awaited since the last tick, or something was heard since.
void PsChannel::Stream::OnTick() {
  std::shared_ptr<net::Connection> to_ping;
  bool silent = false;
  {
    absl::MutexLock lock(&mu_);
    watching_ = broken_.ok() && waiting();
    if (!watching_) return;
    silent_ticks_ = heard_.exchange(false, std::memory_order_relaxed) ? 0 : silent_ticks_ + 1;
    if (silent_ticks_ == kPingAfter) to_ping = connection_;
    silent = silent_ticks_ >= kTicks;
  }
  if (silent) {
    Break(Lost(absl::StrCat("nothing heard for ", absl::FormatDuration(options_.silence_timeout))));
    return;
  }
  if (to_ping != nullptr) {
    proto::PingRequest ping;
    ping.set_session(options_.session);
    to_ping->Send(cluster::EncodeControl(net::MessageType::kPing, ping));
  }
  ScheduleTick();
}

}  // namespace coxswain::worker
