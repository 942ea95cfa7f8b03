// How far training may be ahead of its oldest closure that is not over (train.consistency: bounded;
// elsewhere: stale synchronous parallel). Pure. Owned by the coordinator's loop.
#pragma once

#include <cstdint>
#include <map>

#include "runtime/base/ids.h"

namespace coxswain::core {

class StalenessBound {
 public:
  // An open closure that changes something. `position`: how many steps of such closures were
  // scheduled before it; it grows with the ids. `most`: how many steps the oldest one may be behind
  // when it starts.
  void Add(ClosureId closure, int64_t position, int64_t most) { open_[closure] = {position, most}; }
  // It is over.
  void Remove(ClosureId closure) {
    if (!open_.empty()) open_.erase(closure);
  }
  // The oldest one always may, and so may closures that were not added.
  bool MayStart(ClosureId closure) const;

 private:
  struct Open {
    int64_t position = 0, most = 0;
  };
  std::map<ClosureId, Open> open_;
};

}  // namespace coxswain::core
