// Confirmations of closures of free steps (SyncStep::free) to one PS, which travel with a frame of
// another closure, so that a closure costs 4 messages for each PS and not 6.
//
// Nobody waits for such a confirmation but the step itself. So while other closures of this worker
// have frames to send to this PS, it waits for the next of these. Not where the worker would run
// out of work meanwhile: the closure keeps its place on the worker until its confirmation is
// answered, so there must be one closure more to come than the worker computes at a time, or a free
// place, for which the coordinator has another closure on its way.
//
// It does not wait for ever: a closure may hang, or have no frame for this PS after all. What has
// waited for one to two ticks goes by itself.
//
// Thread model: none of its own; the channel's mutex guards it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "worker_server/step_calls.h"

namespace coxswain::worker {

class FreeCalls {
 public:
  explicit FreeCalls(int compute_threads) : threads_(compute_threads) {}

  // A closure is under way: it will send frames, and then its confirmation.
  void Begin() {
    ++coming_;
    most_ = std::max(most_, ++under_way_);
  }
  // It is about to send its last frame but for the confirmation.
  void BeginLastFrame() { --coming_; }
  // It will send none. Returns what would wait for nothing now.
  FrameCalls EndFrames() { return --coming_ > 0 ? FrameCalls() : Take(); }
  // It is over.
  void End() { --under_way_; }

  // Keeps a confirmation. False: there is nothing to wait for, and it is as it was.
  bool Keep(function::SegmentRequest* confirmation, FrameDone* done) {
    if (coming_ == 0 || (coming_ <= threads_ && under_way_ >= most_)) return false;
    kept_.emplace_back(std::move(*confirmation), std::move(*done));
    return true;
  }
  // Those that go with a frame now.
  FrameCalls Take() {
    ticked_ = 0;
    return std::exchange(kept_, {});
  }

  // To be called from time to time while waiting(). Returns calls that go by themselves now.
  FrameCalls Tick() {
    FrameCalls late(std::make_move_iterator(kept_.begin()),
                    std::make_move_iterator(kept_.begin() + static_cast<std::ptrdiff_t>(ticked_)));
    kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(ticked_));
    ticked_ = kept_.size();
    return late;
  }
  bool waiting() const { return !kept_.empty(); }

 private:
  const int threads_;
  int coming_ = 0;     // closures that have frames to send
  int under_way_ = 0;  // closures that are not over
  int most_ = 0;       // that ever were: the coordinator gives the worker so many
  FrameCalls kept_;
  size_t ticked_ = 0;  // so many of them have seen a tick
};

}  // namespace coxswain::worker
