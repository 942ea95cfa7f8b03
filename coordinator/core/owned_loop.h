// An event loop and its owner: once the owner has let go, timers and tasks posted from outside have
// no effect, even if the loop lives on.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "runtime/env/event_loop.h"

namespace coxswain::core {

// Thread model: on the loop, except for Post, PostAfter, Poster and the functions that Poster
// returns, before the owner lets go.
class OwnedLoop {
 public:
  explicit OwnedLoop(std::shared_ptr<env::EventLoop> loop) : loop_(std::move(loop)) {}

  const std::shared_ptr<env::EventLoop>& get() const { return loop_; }
  // For the owner, which must exist during the call.
  void Post(env::EventLoop::Task task) const { loop_->Post(std::move(task)); }
  env::EventLoop::TimerId PostAfter(absl::Duration delay, std::function<void()> task) const {
    return loop_->PostAfter(delay, WhileOwned(std::move(task)));
  }
  // Returns a function that posts the task, for callers that may outlive the owner and the loop. It
  // may be called on any thread.
  std::function<void()> Poster(std::function<void()> task) const {
    return [loop = std::weak_ptr<env::EventLoop>(loop_), task = WhileOwned(std::move(task))] {
      if (const auto there = loop.lock()) there->Post(task);
    };
  }

  // Sets the only alarm to `when`, in place of the time set before. Infinite: it does not ring.
  void SetAlarm(absl::Duration when, absl::Duration now, std::function<void()> ring) {
    if (when == alarm_) return;
    alarm_ = when;
    if (when == absl::InfiniteDuration()) return;
    PostAfter(std::max(absl::ZeroDuration(), when - now), [this, when, ring = std::move(ring)] {
      if (alarm_ != when) return;
      alarm_ = absl::InfiniteDuration();
      ring();
    });
  }

  // For objects that belong to the loop.
  void AssertOnLoop(const char* file = __builtin_FILE(), int line = __builtin_LINE()) const {
    loop_->AssertOnLoop(file, line);
  }

  // The owner lets go.
  void LetGo() { owned_.reset(); }

 private:
  std::function<void()> WhileOwned(std::function<void()> task) const {
    return [owned = std::weak_ptr<bool>(owned_), task = std::move(task)] {
      if (!owned.expired()) task();
    };
  }

  const std::shared_ptr<env::EventLoop> loop_;
  std::shared_ptr<bool> owned_ = std::make_shared<bool>(true);
  absl::Duration alarm_ = absl::InfiniteDuration();  // of the newest timer
};

}  // namespace coxswain::core
