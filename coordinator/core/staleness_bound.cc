#include "coordinator/core/staleness_bound.h"

namespace coxswain::core {

bool StalenessBound::MayStart(ClosureId closure) const {
  if (open_.empty()) return true;
  const auto found = open_.find(closure);
  if (found == open_.end()) return true;
  int64_t most = found->second.most;
#ifdef COXSWAIN_MUTATE_BOUNDED  // a build that must fail the simulator's tests
  ++most;
#endif
  return found->second.position - open_.begin()->second.position <= most;
}

}  // namespace coxswain::core
