// Counts the work of a daemon that is elsewhere, so that its destructor can wait for it: tasks that
// refer to the daemon and run on the pool, or are on their way back to its loop.
//
// Each piece of work carries a token. The count falls when the last copy of the token goes, whether
// the work ran or was dropped with the queue it waited in. Thread-safe.
#pragma once

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace coxswain::cluster {

class PendingTasks {
 public:
  class Token {
   public:
    Token() = default;
    Token(const Token& other) : tasks_(other.tasks_) {
      if (tasks_ != nullptr) tasks_->Add(1);
    }
    Token(Token&& other) noexcept : tasks_(std::exchange(other.tasks_, nullptr)) {}
    Token& operator=(Token other) noexcept {
      std::swap(tasks_, other.tasks_);
      return *this;
    }
    ~Token() {
      if (tasks_ != nullptr) tasks_->Add(-1);
    }
    explicit operator bool() const { return tasks_ != nullptr; }

   private:
    friend class PendingTasks;
    explicit Token(PendingTasks* tasks) : tasks_(tasks) {}
    PendingTasks* tasks_ = nullptr;
  };

  // To be captured by the work. An empty token after Close: the work must not be started.
  Token Start() {
    absl::MutexLock lock(&mu_);
    if (closed_) return Token();
    ++out_;
    return Token(this);
  }

  // Waits until no token is left and gives out none from then on. Not to be called by the work.
  void Close() {
    absl::MutexLock lock(&mu_);
    closed_ = true;
    mu_.Await(absl::Condition(
        +[](int* out) { return *out == 0; }, &out_));
  }

 private:
  void Add(int change) {
    absl::MutexLock lock(&mu_);
    out_ += change;
  }

  absl::Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  int out_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace coxswain::cluster
