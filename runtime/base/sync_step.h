// A synchronous step: closures with consecutive ids whose gradients are applied as one update.
#pragma once

#include <cstdint>

#include "runtime/base/ids.h"

namespace coxswain {

// The step as it is sent with each of its closures.
struct SyncStep {
  ClosureId first = 0;  // its first closure; 0: the closure belongs to none
  uint32_t count = 0;   // how many closures it takes
  // Not 0: a step, by its first closure, that must be applied wherever a closure of this one reads.
  ClosureId after = 0;
  bool mean = false;  // gradients are averaged over its closures rather than summed
  // So many more closures are tried than it takes. The coordinator says which ones it takes; the
  // others are as if they had never been.
  uint32_t backup = 0;
  // Gradients are not combined: each closure's are an update of their own, one after the other in
  // the closures' order, when the step is applied.
  bool each = false;
  // Steps like it are applied as they come, in any order, and wait for none: `after` is 0.
  bool free = false;

  explicit operator bool() const { return first != 0; }
  uint32_t closures() const { return count + backup; }
  ClosureId end() const { return first + closures(); }
  bool Has(ClosureId closure) const { return closure >= first && closure - first < closures(); }
};

// Bounded because all gradients of a step are held in memory until the last one has arrived.
constexpr uint32_t kMostReplicas = 4096;

// Whether `step` is possible for this closure. Every step that comes from a peer is checked with
// this.
inline bool IsPossible(const SyncStep& step, ClosureId closure) {
  return step.first != 0 && step.count >= 1 && step.count <= kMostReplicas &&
         step.backup <= kMostReplicas && !(step.each && step.mean) &&
         !(step.free && (step.backup > 0 || step.after != 0)) && step.Has(closure) &&
         step.after < step.first && step.end() > step.first;
}

}  // namespace coxswain
