// Connecting, calls and how they travel together, those of synchronous steps, sending, the end.
#include "worker_server/ps_channel.h"

#include <utility>

#include "runtime/base/status.h"
#include "worker_server/ps_stream.h"

namespace coxswain::worker {
namespace {

constexpr absl::Duration kReconnectInterval = absl::Milliseconds(100);

}  // namespace

PsChannel::PsChannel(env::Env* env, env::EventLoop* loop, net::Transport* transport,
                     Options options)
    : env_(env),
      loop_(loop),
      transport_(transport),
      options_(std::move(options)),
      free_(options_.compute_threads) {}

std::shared_ptr<PsChannel::Stream> PsChannel::Connect(Ready ready) {
  auto stream = std::make_shared<Stream>(loop_, options_, std::move(ready));
  stream->Connect(transport_);
  // The channel may have been closed meanwhile, or another thread may have connected too.
  std::shared_ptr<Stream> old = stream;
  absl::Status closed;
  {
    absl::MutexLock lock(&mu_);
    closed = closed_;
    if (closed.ok()) old.swap(stream_);
  }
  if (!closed.ok()) {
    stream->Break(std::move(closed));
  } else if (old != nullptr) {
    old->Break(old->Lost("connected anew"));
  }
  return stream;
}

void PsChannel::Open(Ready ready) {
  std::shared_ptr<Stream> stream;
  absl::Status closed;
  {
    absl::MutexLock lock(&mu_);
    closed = closed_;
    stream = stream_;
    if (closed.ok() && (stream == nullptr || stream->broken())) {
      stream = nullptr;
      last_connect_ = env_->Monotonic();
    }
  }
  if (!closed.ok()) {
    ready(std::move(closed));
  } else if (stream != nullptr) {
    stream->WhenReady(std::move(ready));
  } else {
    Connect(std::move(ready));
  }
}

void PsChannel::Call(function::SegmentRequest request, Done done, Travel travel) {
  if (travel == Travel::kAlone || travel == Travel::kFollows || travel == Travel::kConfirms) {
    CallInStep(std::move(request), std::move(done), travel);
    return;
  }
  if (travel == Travel::kRides && KeepFree(&request, &done)) return;
  Calls calls;
  bool tick = false;
  {
    absl::MutexLock lock(&mu_);
    const bool late = travel == Travel::kFirst && held_.empty() &&
                      working_ > options_.compute_threads && closed_.ok();
    if (late) {
      waiting_.emplace_back(std::move(request), std::move(done));
      return;
    }
    // In the order of arrival: a PS applies an update before it looks up rows.
    calls.swap(held_);
    for (auto& call : free_.Take()) calls.push_back(std::move(call));
    calls.emplace_back(std::move(request), std::move(done));
    if (travel == Travel::kEndsWork) {
      --working_;
      for (auto& call : std::exchange(waiting_, {})) calls.push_back(std::move(call));
      if (starting_.load() > 0 && closed_.ok()) {
        held_.swap(calls);
        tick = !std::exchange(held_tick_, true);
      }
    }
    if (held_.empty()) held_ticked_ = false;
  }
  if (tick) ScheduleHeldTick();
  if (!calls.empty()) Send(std::move(calls));
}

void PsChannel::CallInStep(function::SegmentRequest request, Done done, Travel travel) {
  Calls calls;
  bool tick = false;
  {
    absl::MutexLock lock(&mu_);
    Calls following;
    if (travel == Travel::kConfirms) following = steps_.End(request.sync.first);
    const bool kept = travel == Travel::kFollows && closed_.ok() && steps_.Keep(&request, &done);
    if (!following.empty()) {
      calls.push_back(steps_.InCompany(std::move(request), std::move(done)));
    } else if (!kept) {
      calls.emplace_back(std::move(request), std::move(done));
    }
    for (auto& call : following) calls.push_back(std::move(call));
    tick = steps_.waiting() && !step_tick_;
    step_tick_ = step_tick_ || tick;
  }
  if (tick) ScheduleStepTick();
  if (!calls.empty()) Send(std::move(calls));
}

bool PsChannel::KeepFree(function::SegmentRequest* request, Done* done) {
  bool tick = false;
  {
    absl::MutexLock lock(&mu_);
    if (!closed_.ok() || !free_.Keep(request, done)) return false;
    tick = !std::exchange(step_tick_, true);
  }
  if (tick) ScheduleStepTick();
  return true;
}

void PsChannel::BeginFree() {
  absl::MutexLock lock(&mu_);
  free_.Begin();
}

void PsChannel::BeginLastFrame() {
  absl::MutexLock lock(&mu_);
  free_.BeginLastFrame();
}

void PsChannel::EndFrames() {
  Calls calls;
  {
    absl::MutexLock lock(&mu_);
    calls = free_.EndFrames();
  }
  if (!calls.empty()) Send(std::move(calls));
}

void PsChannel::EndFree() {
  absl::MutexLock lock(&mu_);
  free_.End();
}

void PsChannel::BeginInStep(ClosureId step) {
  absl::MutexLock lock(&mu_);
  steps_.Begin(step);
}

void PsChannel::EndInStep(ClosureId step) {
  Calls calls;
  {
    absl::MutexLock lock(&mu_);
    calls = steps_.End(step);
  }
  if (!calls.empty()) Send(std::move(calls));
}

void PsChannel::ScheduleStepTick() {
  loop_->PostAfter(kStepTick, [weak = weak_from_this()] {
    if (auto channel = weak.lock()) channel->OnStepTick();
  });
}

void PsChannel::OnStepTick() {
  Calls late;
  bool again = false;
  {
    absl::MutexLock lock(&mu_);
    late = steps_.Tick();
    for (auto& call : free_.Tick()) late.push_back(std::move(call));
    step_tick_ = again = (steps_.waiting() || free_.waiting()) && closed_.ok();
  }
  for (auto& call : late) {
    Calls alone;
    alone.push_back(std::move(call));
    Send(std::move(alone));
  }
  if (again) ScheduleStepTick();
}

void PsChannel::ScheduleHeldTick() {
  loop_->PostAfter(kHeldTick, [weak = weak_from_this()] {
    if (auto channel = weak.lock()) channel->OnHeldTick();
  });
}

void PsChannel::OnHeldTick() {
  Calls late;
  bool again = false;
  {
    absl::MutexLock lock(&mu_);
    if (held_ticked_) late.swap(held_);
    held_ticked_ = !held_.empty();
    held_tick_ = again = !held_.empty();
  }
  if (!late.empty()) Send(std::move(late));
  if (again) ScheduleHeldTick();
}

void PsChannel::EndStart() {
  if (starting_.fetch_sub(1) != 1) return;
  Calls calls;
  {
    absl::MutexLock lock(&mu_);
    calls.swap(held_);
    held_ticked_ = false;
  }
  if (!calls.empty()) Send(std::move(calls));
}

void PsChannel::BeginWork() {
  absl::MutexLock lock(&mu_);
  ++working_;
}

void PsChannel::EndWork() {
  Calls calls;
  {
    absl::MutexLock lock(&mu_);
    if (--working_ <= options_.compute_threads) calls.swap(waiting_);
  }
  if (!calls.empty()) Send(std::move(calls));
}

void PsChannel::Send(Calls calls) {
  std::shared_ptr<Stream> stream;
  absl::Status closed;
  bool connect = false;
  uint64_t bytes = 0;
  for (const auto& [request, done] : calls) {
    for (const Tensor& t : request.tensors) bytes += t.bytes();
  }
  if (options_.traffic != nullptr) {
    options_.traffic->bytes_sent.fetch_add(bytes, std::memory_order_relaxed);
  }
  {
    absl::MutexLock lock(&mu_);
    closed = closed_;
    stream = stream_;
    if (closed.ok() && (stream == nullptr || stream->broken())) {
      const absl::Duration now = env_->Monotonic();
      connect = stream == nullptr || now - last_connect_ > kReconnectInterval;
      if (connect) last_connect_ = now;
    }
    ++frames_;
    bytes_sent_ += bytes;
  }
  if (!closed.ok()) {
    for (auto& [request, done] : calls) done(closed);
    return;
  }
  if (connect) stream = Connect(nullptr);
  stream->Call(std::move(calls));
}

void PsChannel::Close(absl::Status reason) {
  std::shared_ptr<Stream> stream;
  Calls waiting;
  {
    absl::MutexLock lock(&mu_);
    if (!closed_.ok()) return;
    closed_ = reason;
    stream = stream_;
    waiting.swap(held_);
    for (auto& call : std::exchange(waiting_, {})) waiting.push_back(std::move(call));
    for (auto& call : steps_.TakeKept()) waiting.push_back(std::move(call));
    for (auto& call : free_.Take()) waiting.push_back(std::move(call));
  }
  if (stream != nullptr) stream->Break(reason);
  for (auto& [request, done] : waiting) done(reason);
}

uint64_t PsChannel::frames() const {
  absl::MutexLock lock(&mu_);
  return frames_;
}

uint64_t PsChannel::bytes_sent() const {
  absl::MutexLock lock(&mu_);
  return bytes_sent_;
}

}  // namespace coxswain::worker
