// Calls of synchronous steps to one PS that travel together, so that a closure costs 4 messages for
// each PS and not 6.
//
// The first call of a closure looks up rows, which the PS does once the step before is applied. It
// is not applied while a closure of it is under way on this worker, for that will still have to
// confirm that all PS hold its gradients. So until then the call loses nothing by waiting here; it
// goes in one message with the last such confirmation. The PS answers both at once, when it has
// applied the step.
//
// Neither may wait for ever: a closure may hang, and the step may lack a closure that needs the
// room which this one takes until its confirmation is answered. What has waited for one to two
// ticks goes by itself: a call without a confirmation, and a confirmation once more, which is
// answered at once.
//
// Thread model: none of its own; the channel's mutex guards it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "runtime/function/frame.h"

namespace coxswain::worker {

using FrameDone = absl::AnyInvocable<void(absl::StatusOr<std::vector<Tensor>>)>;
using FrameCall = std::pair<function::SegmentRequest, FrameDone>;
using FrameCalls = std::vector<FrameCall>;

class StepCalls {
 public:
  // A closure of the step is under way on this worker, until End.
  void Begin(ClosureId step) { ++under_way_[step]; }
  // Returns the calls that waited for the step, if this was the last of its closures.
  FrameCalls End(ClosureId step);
  // Keeps the first call of a closure while closures of the step before it are under way.
  // False: none is, and the call is as it was.
  bool Keep(function::SegmentRequest* request, FrameDone* done);
  // A confirmation as it is to be sent when its answer comes with that of another call.
  FrameCall InCompany(function::SegmentRequest confirmation, FrameDone done);

  // To be called from time to time while waiting(). Returns calls that go by themselves now.
  FrameCalls Tick();
  bool waiting() const { return !kept_.empty() || !confirmations_.empty(); }
  // Keeps nothing any more.
  FrameCalls TakeKept();

 private:
  class Confirmation;
  struct Kept {
    FrameCalls calls;
    bool ticked = false;
  };
  struct Sent {
    std::shared_ptr<Confirmation> confirmation;
    bool ticked = false;
  };

  std::map<ClosureId, int> under_way_;  // closures, by the first of their step
  std::map<ClosureId, Kept> kept_;      // by the step that they wait for
  std::vector<Sent> confirmations_;     // that were not answered at the last tick
};

}  // namespace coxswain::worker
