// Decides when a checkpoint is due. Does no I/O. Owned by the coordinator's loop.
#pragma once

#include <cstdint>

namespace coxswain::core {

class CheckpointSchedule {
 public:
  // Starts a new timer for checkpoints and returns its number; older timers are ignored from now
  // on.
  uint64_t NewTimer() { return ++timer_; }
  bool IsCurrent(uint64_t timer) const { return timer == timer_; }

  // A checkpoint is to begin after this number of training steps, or the job goes on from such a
  // checkpoint. May be called again when it begins.
  void Begun(int64_t steps) { steps_ = steps; }
  // It was written, or will not be.
  void Ended(bool written) { missed_ = !written; }
  // `every`: steps; 0: not by steps.
  bool DueBySteps(int64_t steps, int64_t every) const {
    return every > 0 && steps - steps_ >= every;
  }
  // Whether a checkpoint would differ from the last one that was written. `unsaved`: a program has
  // written rows since.
  bool Worthwhile(int64_t steps, bool unsaved) const {
    return steps != steps_ || unsaved || missed_;
  }

 private:
  uint64_t timer_ = 0;
  int64_t steps_ = 0;
  bool missed_ = false;
};

}  // namespace coxswain::core
