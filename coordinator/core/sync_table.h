// The synchronous steps that are not over: which closures each has, and which of these have done
// their part. A step is over when all have; its closures are so together. Pure. Owned by the
// coordinator's loop.
//
// Of a step with backups (SyncStep::backup) more closures are open than it takes. When enough of
// them have done their part, it is decided which ones it takes (Choose), the others are none of
// its any more, and it is over when all PS say so (Conclude).
//
// Closures of a step start while up to two steps before it are open (ClosureSpec::sync.after, and
// ClosureTable's `after`): so the next step's closures are with their workers, read what they need
// of the data, and wait there or at the parameter servers until those have applied the step before.
// The coordinator is not asked, and has a whole step's time to hand out the one after the next, so
// that a worker's confirmation always finds look-ups to travel with.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "coxswain/tensor.h"
#include "runtime/base/ids.h"
#include "runtime/base/sync_step.h"

namespace coxswain::core {

class SyncTable {
 public:
  struct Done {
    ClosureId closure = 0;
    std::vector<Tensor> results;
  };

  // One of its closures is open. Nothing where the step is known.
  void Add(const SyncStep& step) {
    any_ = true;
    if (!step.free) used_ = true;
    open_.try_emplace(step.first).first->second.step = step;
  }
  // Whether a step was ever added that is not free.
  bool used() const { return used_; }
  // Or one that is.
  bool any() const { return any_; }
  bool IsOpen(ClosureId first) const { return first != 0 && open_.count(first) > 0; }
  // The newest open step that is not free, of this one and those before it; 0: there is none.
  ClosureId NewestOpen(ClosureId first) const;

  // One of its closures was given to a worker: what it contributes may be at parameter servers.
  void Begin(ClosureId first);
  // Whether that was so, or was so of a later step, which may wait there for this one. (Steps begin
  // in their order, but for closures that are suspected, and are tried alone.)
  bool HasBegun(ClosureId first) const;
  // No step that has begun is open, free ones aside. All after this id have not begun.
  bool none_begun() const { return begun_end() == 0; }
  ClosureId begun_end() const;

  // A closure has done its part. Returns those of the step, in order, when it was the last one;
  // the step is over then. One with backups never is.
  std::vector<Done> Finish(const SyncStep& step, ClosureId closure, std::vector<Tensor> results);
  // A step with backups of which enough are done, if there is one, and which of its closures it
  // takes, ascending. It is not returned again.
  struct Choice {
    SyncStep step;
    std::vector<ClosureId> chosen;
  };
  std::optional<Choice> Choose();
  // A chosen step is applied everywhere: it is over. Returns its closures; none where all shards
  // went back meanwhile.
  std::vector<Done> Conclude(ClosureId first);
  // All shards have gone back: no step has begun. Returns closures that had done their part.
  std::vector<ClosureId> BeginAnew();
  // It will never be complete.
  void Remove(ClosureId first) {
    open_.erase(first);
    ready_.erase(first);
  }
  void Clear() {
    open_.clear();
    ready_.clear();
  }

 private:
  struct Open {
    SyncStep step;
    bool begun = false, chosen = false;
    std::map<ClosureId, std::vector<Tensor>> done;
  };

  bool any_ = false, used_ = false;
  std::map<ClosureId, Open> open_;  // by the first closure
  ClosureId newest_begun_ = 0;      // of steps that are not free
  std::set<ClosureId> ready_;       // steps with backups that are to be chosen
};

}  // namespace coxswain::core
