// When a checkpoint is due. Pure. Owned by the coordinator's loop.
#pragma once

#include <cstdint>

namespace coxswain::core {

class CheckpointSchedule {
 public:
  // Checkpoints begin with another timer; one that is older does nothing. Returns its number.
  uint64_t NewTimer() { return ++timer_; }
  bool IsCurrent(uint64_t timer) const { return timer == timer_; }

  // One was begun after this number of training steps, or is what the job goes on from.
  void Begun(int64_t steps) { steps_ = steps; }
  // `every`: steps; 0: not by steps.
  bool DueBySteps(int64_t steps, int64_t every) const {
    return every > 0 && steps - steps_ >= every;
  }
  // Whether it would be another one. `unsaved`: something was written by hand.
  bool Worthwhile(int64_t steps, bool unsaved) const { return steps != steps_ || unsaved; }

 private:
  uint64_t timer_ = 0;
  int64_t steps_ = 0;
};

}  // namespace coxswain::core
