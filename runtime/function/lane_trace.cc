#include "runtime/function/lane_trace.h"

#include <algorithm>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace coxswain::function {

// What notifications have of the run, for as long as it lives. The lock is held only for a look at
// the clock.
class LaneTrace::Times {
 public:
  Times(trace::TraceRecorder* recorder, const graph::StepInfo& step, int device)
      : step_(step),
        device_(static_cast<uint32_t>(device)),
        recorder_(recorder),
        last_(recorder->Now()) {}

  void Reached(const std::optional<Stretch>& ended) {
    const absl::MutexLock lock(&mu_);
    if (recorder_ == nullptr) return;
    const absl::Duration now = recorder_->Now();
    if (ended) {
      recorder_->Record(ended->kind, std::max(last_, ended->not_before), now, step_.closure,
                        step_.step, device_, ended->details);
    }
    last_ = now;
  }
  // The recorder and its clock may go.
  void End() {
    const absl::MutexLock lock(&mu_);
    recorder_ = nullptr;
  }

 private:
  const graph::StepInfo step_;
  const uint32_t device_;
  absl::Mutex mu_;
  trace::TraceRecorder* recorder_ ABSL_GUARDED_BY(mu_);
  absl::Duration last_ ABSL_GUARDED_BY(mu_);  // notification
};

std::unique_ptr<LaneTrace> LaneTrace::Start(trace::TraceRecorder* recorder,
                                            const graph::StepInfo& step, int device,
                                            device::DeviceStream* stream) {
  if (recorder == nullptr || !recorder->enabled()) return nullptr;
  return std::unique_ptr<LaneTrace>(new LaneTrace(recorder, step, device, stream));
}

LaneTrace::LaneTrace(trace::TraceRecorder* recorder, const graph::StepInfo& step, int device,
                     device::DeviceStream* stream)
    : recorder_(recorder),
      stream_(stream),
      times_(std::make_shared<Times>(recorder, step, device)) {}

LaneTrace::~LaneTrace() { times_->End(); }

void LaneTrace::OnOp() {
  if (!computes_since_) computes_since_ = recorder_->Now();
}

void LaneTrace::EndComputing() {
  if (computes_since_) Begin();
}

void LaneTrace::Begin() {
  std::optional<Stretch> computed;
  if (computes_since_) computed = Stretch{trace::SpanKind::kGpuCompute, {}, *computes_since_};
  computes_since_.reset();
  Mark(computed);
}

void LaneTrace::EndCopy(trace::SpanKind kind, size_t bytes) {
  Mark(Stretch{kind, {.bytes = static_cast<int64_t>(bytes)}, absl::ZeroDuration()});
}

LaneTrace::Copied LaneTrace::EndCopyWith(trace::SpanKind kind, size_t bytes) const {
  return [times = times_, kind, bytes] {
    times->Reached(Stretch{kind, {.bytes = static_cast<int64_t>(bytes)}, absl::ZeroDuration()});
  };
}

void LaneTrace::Mark(const std::optional<Stretch>& ended) {
  stream_
      ->Notify([times = times_, ended](const absl::Status& status) {
        if (status.ok()) times->Reached(ended);
      })
      .IgnoreError();
}

}  // namespace coxswain::function
