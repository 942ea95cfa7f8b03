#include "runtime/net/accept_loop.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/logging.h"

namespace coxswain::net {
namespace {

// Of the one who connected, who is gone again; see accept(2).
bool IsOfTheOther(int error) {
  switch (error) {
    case EAGAIN:
    case EINTR:
    case ECONNABORTED:
    case ENETDOWN:
    case EPROTO:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case ENETUNREACH:
      return true;
    default:
      return false;
  }
}

}  // namespace

AcceptLoop::AcceptLoop(std::shared_ptr<Poller> poller, UniqueFd socket, std::string who,
                       std::function<void(UniqueFd)> take)
    : poller_(poller), socket_(std::move(socket)), who_(std::move(who)), take_(std::move(take)) {}

bool AcceptLoop::OnReady() {
  UniqueFd socket(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid()) return OnRefused(errno);
  if (std::exchange(short_of_, 0) != 0) LogInfo(who_, " are let in again");
  take_(std::move(socket));
  return true;
}

bool AcceptLoop::OnRefused(int error) {
  absl::MutexLock lock(&mu_);
  if (stopping_) return false;
  if (IsOfTheOther(error)) return true;
  // No descriptors left, say. It passes, and those who connect meanwhile wait in the socket's
  // queue; but until then the socket would tell of them again and again.
  if (std::exchange(short_of_, error) != error) {
    LogWarning(who_, " have to wait: ", std::strerror(error));
  }
  return false;
}

void AcceptLoop::OnForgotten() {
  const std::shared_ptr<Poller> poller = poller_.lock();
  absl::MutexLock lock(&mu_);
  if (stopping_ || poller == nullptr) {
    End();
  } else {
    Pause(poller.get());
  }
}

void AcceptLoop::Pause(Poller* poller) {
  paused_ = true;
  poller->RunAfter(kPause, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->GoOn();
  });
}

void AcceptLoop::GoOn() {
  const std::shared_ptr<Poller> poller = poller_.lock();
  absl::MutexLock lock(&mu_);
  if (stopping_ || poller == nullptr) return;
  if (poller->Add(shared_from_this()).ok()) {
    paused_ = false;
  } else {
    Pause(poller.get());  // short of that, too
  }
}

void AcceptLoop::ShutDown() {
  absl::MutexLock lock(&mu_);
  stopping_ = true;
  if (paused_) {
    End();
  } else if (!ended_) {
    shutdown(socket_.get(), SHUT_RDWR);  // the poller forgets it
  }
  mu_.Await(absl::Condition(&ended_));
}

void AcceptLoop::End() {
  socket_ = UniqueFd();
  ended_ = true;
}

}  // namespace coxswain::net
