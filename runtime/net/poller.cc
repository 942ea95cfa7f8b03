#include "runtime/net/poller.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "runtime/base/status.h"
#include "runtime/net/unique_fd.h"

namespace coxswain::net {

namespace {

using Time = std::chrono::steady_clock::time_point;

Time Now() { return std::chrono::steady_clock::now(); }

absl::Status NoneLeft(absl::string_view what, int error) {
  return absl::ResourceExhaustedError(absl::StrCat(what, ": ", std::strerror(error)));
}

}  // namespace

struct Poller::State {
  UniqueFd epoll{epoll_create1(EPOLL_CLOEXEC)};
  UniqueFd wake{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<bool> stop{false};

  absl::Mutex mu;
  uint64_t last_id ABSL_GUARDED_BY(mu) = 0;  // 0 is the wake descriptor
  absl::flat_hash_map<uint64_t, std::shared_ptr<PollerSource>> sources ABSL_GUARDED_BY(mu);
  std::multimap<Time, std::function<void()>> timers ABSL_GUARDED_BY(mu);
  std::vector<std::shared_ptr<PollerSource>> added ABSL_GUARDED_BY(mu);  // since the last look
  std::vector<std::shared_ptr<PollerSource>> active;                     // of the thread

  absl::Status Watch(int fd, uint64_t id) {
    epoll_event event = {};
    event.events = EPOLLIN | EPOLLRDHUP;
    event.data.u64 = id;
    if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) == 0) return absl::OkStatus();
    return NoneLeft("cannot watch another connection", errno);
  }

  void Wake() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake.get(), &one, sizeof(one));
  }

  void Run() {
    std::array<epoll_event, 64> events;
    while (!stop.load(std::memory_order_acquire)) {
      const int timeout = RunTimers();
      const int n = epoll_wait(epoll.get(), events.data(), static_cast<int>(events.size()),
                               active.empty() ? timeout : 0);
      for (int i = 0; i < n && !stop.load(std::memory_order_acquire); ++i) {
        if (events[i].data.u64 == 0) {
          uint64_t count;
          [[maybe_unused]] const ssize_t got = read(wake.get(), &count, sizeof(count));
          TakeAdded();
        } else {
          Serve(events[i].data.u64);
        }
      }
      PollActive();
    }
  }

  // Something may have come for them before they were here.
  void TakeAdded() {
    absl::MutexLock lock(&mu);
    active.insert(active.end(), added.begin(), added.end());
    added.clear();
  }

  void Serve(uint64_t id) {
    std::shared_ptr<PollerSource> source;
    {
      absl::MutexLock lock(&mu);
      const auto it = sources.find(id);
      if (it == sources.end()) return;
      source = it->second;
    }
    if (source->OnReady()) {
      if (std::find(active.begin(), active.end(), source) == active.end()) {
        active.push_back(std::move(source));
      }
      return;
    }
    std::erase(active, source);
    epoll_ctl(epoll.get(), EPOLL_CTL_DEL, source->fd(), nullptr);
    {
      absl::MutexLock lock(&mu);
      sources.erase(id);
    }
    source->OnForgotten();
  }

  // A source stays active as long as something comes; all get their turn in between.
  void PollActive() {
    for (size_t i = 0; i < active.size() && !stop.load(std::memory_order_acquire);) {
      if (!active[i]->Poll() && active[i]->Arm()) {
        std::swap(active[i], active.back());
        active.pop_back();
      } else {
        ++i;
      }
    }
  }

  // Returns the milliseconds until the next, -1 for ever.
  int RunTimers() {
    while (true) {
      std::function<void()> action;
      {
        absl::MutexLock lock(&mu);
        if (timers.empty()) return -1;
        const absl::Duration left = absl::FromChrono(timers.begin()->first - Now());
        if (left > absl::ZeroDuration()) {
          return static_cast<int>(std::min<int64_t>(absl::ToInt64Milliseconds(left) + 1, 60'000));
        }
        action = std::move(timers.begin()->second);
        timers.erase(timers.begin());
      }
      action();
    }
  }
};

absl::StatusOr<std::shared_ptr<Poller>> Poller::Make() {
  auto state = std::make_shared<State>();
  if (!state->epoll.valid() || !state->wake.valid()) {
    return NoneLeft("cannot wait for connections", errno);
  }
  RETURN_IF_ERROR(state->Watch(state->wake.get(), 0));
  try {
    return std::shared_ptr<Poller>(new Poller(std::move(state)));
  } catch (const std::system_error& error) {
    return NoneLeft("no thread to wait for connections", error.code().value());
  }
}

Poller::Poller(std::shared_ptr<State> state)
    : state_(std::move(state)), thread_([state = state_] { state->Run(); }) {}

Poller::~Poller() {
  state_->stop.store(true, std::memory_order_release);
  state_->Wake();
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
  absl::flat_hash_map<uint64_t, std::shared_ptr<PollerSource>> sources;
  std::multimap<Time, std::function<void()>> timers;
  absl::MutexLock lock(&state_->mu);
  sources.swap(state_->sources);
  timers.swap(state_->timers);
}

absl::Status Poller::Add(std::shared_ptr<PollerSource> source) {
  {
    absl::MutexLock lock(&state_->mu);
    const uint64_t id = ++state_->last_id;
    RETURN_IF_ERROR(state_->Watch(source->fd(), id));
    state_->added.push_back(source);
    state_->sources.emplace(id, std::move(source));
  }
  state_->Wake();
  return absl::OkStatus();
}

void Poller::RunAfter(absl::Duration delay, std::function<void()> action) {
  if (delay > absl::Hours(24 * 365)) return;
  {
    absl::MutexLock lock(&state_->mu);
    state_->timers.emplace(Now() + absl::ToChronoNanoseconds(delay), std::move(action));
  }
  state_->Wake();
}

}  // namespace coxswain::net
