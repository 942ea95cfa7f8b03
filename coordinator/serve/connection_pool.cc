// The threads; the connections that wait; the loop that accepts and looks after those.
#include "coordinator/serve/connection_pool.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "runtime/base/logging.h"

namespace coxswain::serve {
namespace {

constexpr std::chrono::milliseconds kLook{100};
constexpr int kEvents = 64;
// The system's backlog; the kernel takes less where it allows less.
constexpr int kBacklog = 1024;

static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT);

bool Add(int epoll, int socket, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.fd = socket;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &event) == 0;
}

}  // namespace

ConnectionPool::ConnectionPool(const Options& options, Make make)
    : options_(options),
      make_(std::move(make)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (epoll_ < 0 || wake_ < 0 || !Add(epoll_, wake_, EPOLLIN)) {
    throw std::system_error(errno, std::generic_category(), "epoll");
  }
}

ConnectionPool::~ConnectionPool() {
  close(wake_);
  close(epoll_);
}

void ConnectionPool::Stop() {
  ++stops_;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof(one));
}

void ConnectionPool::StartThreads() {
  threads_.reserve(static_cast<size_t>(options_.threads));
  try {
    for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Work(); });
  } catch (const std::system_error& error) {
    if (threads_.empty()) throw;
    LogWarning("only ", threads_.size(), " connections of ", options_.threads,
               " are served at once: ", error.what(),
               " (`ulimit -u` or `ulimit -v`, or the cgroup's pids.max)");
  }
}

void ConnectionPool::Work() {
  while (std::unique_ptr<PooledConnection> connection = Take()) {
    const PooledConnection::Next next = connection->Serve();
    if (next == PooledConnection::Next::kEnd) connection.reset();
    Put(std::move(connection), next);
  }
}

std::unique_ptr<PooledConnection> ConnectionPool::Take() {
  std::unique_lock lock(mutex_);
  ++idle_;
  some_.wait(lock, [this] { return ended_ || !ready_.empty(); });
  --idle_;
  if (ready_.empty()) return nullptr;
  std::unique_ptr<PooledConnection> connection = std::move(ready_.front());
  ready_.pop_front();
  --requests_waiting_;
  ++busy_;
  return connection;
}

void ConnectionPool::Put(std::unique_ptr<PooledConnection> connection,
                         PooledConnection::Next next) {
  const std::lock_guard lock(mutex_);
  --busy_;
  if (connection == nullptr) return;
  if (next == PooledConnection::Next::kTurn) {
    ready_.push_back(std::move(connection));
    ++requests_waiting_;
    some_.notify_one();
    return;
  }
  // After the end nobody looks after it.
  const int socket = connection->socket();
  if (ended_ || !Add(epoll_, socket, static_cast<uint32_t>(connection->events()))) return;
  waiting_[socket] = {std::move(connection), Clock::now()};
}

std::unique_ptr<PooledConnection> ConnectionPool::Remove(std::map<int, Waiting>::iterator at) {
  std::unique_ptr<PooledConnection> connection = std::move(at->second.connection);
  epoll_ctl(epoll_, EPOLL_CTL_DEL, at->first, nullptr);
  waiting_.erase(at);
  return connection;
}

void ConnectionPool::MakeReady(int socket) {
  const std::lock_guard lock(mutex_);
  const auto at = waiting_.find(socket);
  if (at == waiting_.end()) return;
  ready_.push_back(Remove(at));
  ++requests_waiting_;
  some_.notify_one();
}

void ConnectionPool::EndLate() {
  const Clock::time_point now = Clock::now();
  std::vector<std::unique_ptr<PooledConnection>> late;  // end without the lock
  const std::lock_guard lock(mutex_);
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const auto next = std::next(at);
    if (at->second.connection->until() <= now) late.push_back(Remove(at));
    at = next;
  }
}

bool ConnectionPool::EndOldest() {
  std::unique_ptr<PooledConnection> oldest;
  const std::lock_guard lock(mutex_);
  const auto at = std::min_element(
      waiting_.begin(), waiting_.end(),
      [](const auto& a, const auto& b) { return a.second.since < b.second.since; });
  if (at == waiting_.end()) return false;
  oldest = Remove(at);
  pollfd now = {oldest->socket(), oldest->events(), 0};
  if (poll(&now, 1, 0) > 0) {  // something has just come
    ready_.push_back(std::move(oldest));
    ++requests_waiting_;
    some_.notify_one();
  }
  return true;
}

size_t ConnectionPool::WithoutThread() {
  const std::lock_guard lock(mutex_);
  return waiting_.size() + ready_.size();
}

bool ConnectionPool::Idle() {
  const std::lock_guard lock(mutex_);
  return waiting_.empty() && ready_.empty() && busy_ == 0;
}

void ConnectionPool::Listen(bool on) {
  if (on == listening_) return;
  listening_ = on && Add(epoll_, listener_, EPOLLIN);
  if (!on) epoll_ctl(epoll_, EPOLL_CTL_DEL, listener_, nullptr);
}

void ConnectionPool::Accept(int most) {
  for (int i = 0; i < most; ++i) {
    // Those that wait for a thread have sent a request, and are not ended for another one.
    if (WithoutThread() >= options_.waiting && !EndOldest()) return Listen(false);
    const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket >= 0) {
      std::unique_ptr<PooledConnection> connection = make_(socket);
      const std::lock_guard lock(mutex_);
      if (!Add(epoll_, socket, EPOLLIN)) continue;
      waiting_[socket] = {std::move(connection), Clock::now()};
    } else if (errno == EMFILE || errno == ENFILE) {
      if (!EndOldest()) return Listen(false);
    } else if (errno != EINTR && errno != ECONNABORTED) {
      // None is left; or the system lacks something, and is asked again after a moment.
      if (errno != EAGAIN && errno != EWOULDBLOCK) Listen(false);
      return;
    }
  }
}

void ConnectionPool::Poll() {
  std::array<epoll_event, kEvents> events = {};
  const int found = epoll_wait(epoll_, events.data(), kEvents, static_cast<int>(kLook.count()));
  bool accept = false;
  for (int i = 0; i < found; ++i) {
    const int socket = events[static_cast<size_t>(i)].data.fd;
    if (socket == wake_) {
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = read(wake_, &count, sizeof(count));
    } else if (socket == listener_) {
      accept = true;
    } else {
      MakeReady(socket);
    }
  }
  if (accept) Accept(kEvents);
  if (Clock::now() < next_look_) return;
  next_look_ = Clock::now() + kLook;
  EndLate();
  if (listener_ >= 0) Listen(true);
}

void ConnectionPool::Run(int listener) {
  listener_ = listener;
  listen(listener_, kBacklog);
  fcntl(listener_, F_SETFL, fcntl(listener_, F_GETFL) | O_NONBLOCK);
  StartThreads();
  Listen(true);
  constexpr Clock::time_point kNever = Clock::time_point::max();
  Clock::time_point closes = kNever, ends = kNever;
  while (Clock::now() < ends && (listener_ >= 0 || !Idle())) {
    if (stopping() && closes == kNever) closes = Clock::now() + options_.drain;
    if (listener_ >= 0 && (stops_.load() > 1 || Clock::now() >= closes)) {
      // A client whose connection waits in the backlog may have sent its request.
      Accept(kBacklog);
      Listen(false);
      close(listener_);
      listener_ = -1;
      ends = Clock::now() + options_.grace;
    }
    Poll();
  }
  std::map<int, Waiting> rest;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    rest.swap(waiting_);
  }
  some_.notify_all();
  rest.clear();
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace coxswain::serve
