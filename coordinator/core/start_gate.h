// When a closure that waits may start: not before others are over, not too far ahead of the oldest,
// and with its synchronous step; and which closures of steps have done their part and wait for the
// others to be over with them. Pure. Owned by the coordinator's loop.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "coordinator/core/staleness_bound.h"
#include "runtime/base/ids.h"
#include "runtime/base/sync_step.h"

namespace coxswain::core {

class StartGate {
 public:
  static constexpr ClosureId kNever = std::numeric_limits<ClosureId>::max();

  // Not before every closure below `after` is over.
  void SetAfter(ClosureId closure, ClosureId after) { after_[closure] = after; }
  // See StalenessBound.
  void Bound(ClosureId closure, int64_t position, int64_t most) {
    bound_.Add(closure, position, most);
  }
  // It is one of this step's.
  void SetStep(ClosureId closure, const SyncStep& step) {
    step_of_[closure] = {step.first, step.end(), step.free};
  }
  // Closures of steps from this id on do not start; kNever: they do.
  void StopStepsAt(ClosureId closure) { stop_steps_at_ = closure; }

  // `low_water`: every closure below is over.
  bool MayStart(ClosureId closure, ClosureId low_water) const {
    if (!bound_.MayStart(closure)) return false;
    if (closure >= stop_steps_at_ && InStep(closure)) return false;
    if (after_.empty()) return true;
    const auto it = after_.find(closure);
    return it == after_.end() || it->second <= low_water;
  }
  // Whether some have to wait for others that are over: all start in the order of their ids then.
  bool ordered() const { return !after_.empty(); }

  struct Step {
    ClosureId first = 0, end = 0;
    bool free = false;
  };
  // Null: it is of none, or of a free one, which no other waits for.
  const Step* StepOf(ClosureId closure) const {
    const auto found = step_of_.find(closure);
    return found == step_of_.end() || found->second.free ? nullptr : &found->second;
  }
  bool InStep(ClosureId closure) const { return StepOf(closure) != nullptr; }
  // Of its step, free or not; or itself.
  ClosureId FirstOf(ClosureId closure) const {
    const auto found = step_of_.find(closure);
    return found == step_of_.end() ? closure : found->second.first;
  }

  // It has done its part; or is to do it again. False: that was so before.
  bool Settle(ClosureId closure) { return settled_.insert(closure).second; }
  bool Unsettle(ClosureId closure) { return settled_.erase(closure) > 0; }
  const std::set<ClosureId>& settled() const { return settled_; }

  // It is over. True: it was one of a step's.
  bool Forget(ClosureId closure) {
    if (!settled_.empty()) settled_.erase(closure);
    if (!after_.empty()) after_.erase(closure);
    bound_.Remove(closure);
    return !step_of_.empty() && step_of_.erase(closure) > 0;
  }

 private:
  std::map<ClosureId, ClosureId> after_;
  StalenessBound bound_;
  absl::flat_hash_map<ClosureId, Step> step_of_;
  std::set<ClosureId> settled_;
  ClosureId stop_steps_at_ = kNever;
};

}  // namespace coxswain::core
