// When a run's stream on a device copies and computes, for a trace.
//
// The stream itself says so, by notifications between what is enqueued. These may come after the
// run has ended, where it ends with an error; they are without effect then.
#pragma once

#include <memory>
#include <optional>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "runtime/device/device_runtime.h"
#include "runtime/graph/kernel.h"
#include "runtime/trace/recorder.h"

namespace coxswain::function {

// Used by one thread at a time. What cannot be enqueued is left out of the trace: whoever enqueues
// the work itself hears of a device that fails.
class LaneTrace {
 public:
  // Null when nobody records. `recorder` (may be null) and `stream` must outlive it.
  static std::unique_ptr<LaneTrace> Start(trace::TraceRecorder* recorder,
                                          const graph::StepInfo& step, int device,
                                          device::DeviceStream* stream);
  ~LaneTrace();

  // Before an op is enqueued.
  void OnOp();
  // The stream is to do something else than computing, or has nothing to do.
  void EndComputing();
  // What is enqueued next begins when the stream comes to it, and not before; what the stream has
  // computed ends there.
  void Begin();
  // After a copy was enqueued.
  void EndCopy(trace::SpanKind kind, size_t bytes);
  // As EndCopy, by a notification that the caller enqueues anyway, and in which it calls this.
  using Copied = absl::AnyInvocable<void()>;
  Copied EndCopyWith(trace::SpanKind kind, size_t bytes) const;

 private:
  struct Stretch {
    trace::SpanKind kind;
    trace::SpanDetails details;
    absl::Duration not_before;  // it was enqueued then
  };
  class Times;

  LaneTrace(trace::TraceRecorder* recorder, const graph::StepInfo& step, int device,
            device::DeviceStream* stream);
  // A stretch ends where the stream will be then. None: the next one begins there.
  void Mark(const std::optional<Stretch>& ended);

  trace::TraceRecorder* const recorder_;
  device::DeviceStream* const stream_;
  const std::shared_ptr<Times> times_;
  std::optional<absl::Duration> computes_since_;  // the first of the ops was enqueued
};

}  // namespace coxswain::function
