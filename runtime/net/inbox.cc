#include "runtime/net/inbox.h"

#include <utility>

#include "runtime/base/logging.h"

namespace coxswain::net {

bool Inbox::TryRun() {
  if (running_) return false;
  running_ = true;
  runner_ = std::this_thread::get_id();
  return true;
}

void Inbox::Open(std::shared_ptr<ConnectionHandler> handler) {
  handler_ = std::move(handler);
  {
    absl::MutexLock lock(&mu_);
    runner_ = std::this_thread::get_id();
  }
  Drain();
}

void Inbox::Push(Message message) {
  {
    absl::MutexLock lock(&mu_);
    if (closed_.has_value()) return;
    if (!TryRun()) {
      queue_.push_back(std::move(message));
      return;
    }
  }
  // Idle, so the queue is empty: straight to the handler.
  Deliver(std::move(message));
  Drain();
}

void Inbox::Close(absl::Status status) {
  {
    absl::MutexLock lock(&mu_);
    if (closed_.has_value()) return;
    closed_ = std::move(status);
    if (!TryRun()) return;
  }
  Drain();
}

void Inbox::Drain() {
  for (;;) {
    Message message;
    {
      absl::MutexLock lock(&mu_);
      if (queue_.empty()) {
        if (closed_.has_value()) break;
        running_ = false;
        runner_ = {};
        return;
      }
      message = std::move(queue_.front());
      queue_.pop_front();
    }
    Deliver(std::move(message));
  }
  DeliverClosed();
}

void Inbox::Deliver(Message message) noexcept {
  if (handler_ != nullptr) handler_->OnMessage(std::move(message));
}

void Inbox::DeliverClosed() noexcept {
  absl::Status status;
  {
    absl::MutexLock lock(&mu_);
    status = *closed_;
  }
  // running_ stays set: nothing is delivered any more.
  if (handler_ != nullptr) handler_->OnClosed(std::move(status));
  handler_.reset();
  absl::MutexLock lock(&mu_);
  runner_ = {};
  done_ = true;
}

bool Inbox::closed() const {
  absl::MutexLock lock(&mu_);
  return closed_.has_value();
}

bool Inbox::done() const {
  absl::MutexLock lock(&mu_);
  return done_;
}

void Inbox::WaitDone() {
  absl::MutexLock lock(&mu_);
  COX_CHECK(runner_ != std::this_thread::get_id(),
            "a listener or transport is destroyed by a handler of its own connection");
  mu_.Await(absl::Condition(&done_));
}

}  // namespace coxswain::net
