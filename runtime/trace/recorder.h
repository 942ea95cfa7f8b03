// What a task has done when: spans of its work, kept until the coordinator fetches them for a trace
// (docs/performance.md tells how to look at one).
//
// Recording is off until it is asked for, and costs one relaxed load until then. When it is on, a
// span goes into a bounded queue without a lock; what finds it full is counted and dropped. All
// calls are thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "protos/control.pb.h"
#include "runtime/env/env.h"

namespace coxswain::trace {

// A kind has a name and a group of tracks. Spans of one thread nest; the tracks of other groups may
// hold spans that overlap.
enum class SpanKind : uint8_t {
  // Worker.
  kClosure,  // an attempt, from its start to its answer
  kStep,
  kInput,    // thread: reading the batch
  kCompute,  // thread: a stretch in which it works for one step, until it waits or is over
  kPsCall,   // a frame to a PS until its reply; lane: the PS
  kGpu,      // what a step has given to a GPU, until it comes up; lane: the GPU
  // What a step's stream on a GPU does, one after the other; lane: the GPU.
  kGpuCompute,
  kCopyToGpu,
  kCopyFromGpu,      // to the host
  kCopyBetweenGpus,  // lane: the GPU that it goes to
  // PS.
  kSegment,         // thread: all that follows
  kGather,          // thread
  kStage,           // thread: an update is checked
  kHold,            // thread: what a synchronous step will apply is put aside
  kApply,           // thread
  kCheckpointCut,   // thread: in which no segment can run
  kCheckpointSave,  // writing the files
  // Coordinator.
  kScheduled,   // a closure, from Schedule to its result
  kAttempt,     // given to a worker until its answer; lane: the worker
  kCheckpoint,  // from the request until it is visible
  // Instants.
  kWorkerLost,
  kWorkerJoined,
  kPsLost,
  kRecovered,
  kOtherEvent,
};

// What spans of some kinds say beside their times. -1: of this one there is nothing to say.
struct SpanDetails {
  int64_t staleness = -1;  // of the gradients that it applies, see ps_server/staleness.h
  int64_t bytes = -1;      // that it copies
};

struct TraceSpan {
  SpanKind kind = SpanKind::kClosure;
  uint32_t lane = 0;  // which of the group's tracks; of a thread's kinds it is filled in
  uint32_t step = 0;
  uint64_t closure = 0;  // 0: none
  int64_t start_us = 0;  // on the clock of Env::Monotonic
  int64_t duration_us = 0;
  SpanDetails details;
};

class TraceRecorder {
 public:
  static constexpr size_t kDefaultCapacity = size_t{1} << 16;
  // The most spans of one Drain: what takes a loop about a millisecond.
  static constexpr size_t kMostAtOnce = size_t{1} << 13;

  // `env` must outlive the recorder. `capacity` is a power of 2.
  explicit TraceRecorder(env::Env* env, size_t capacity = kDefaultCapacity);
  ~TraceRecorder();

  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }
  // The queue is made when recording starts for the first time. What was recorded stays.
  void Enable(bool enable);

  absl::Duration Now() const { return env_->Monotonic(); }
  // Does nothing when recording is off.
  void Record(SpanKind kind, absl::Duration start, absl::Duration end, uint64_t closure = 0,
              uint32_t step = 0, uint32_t lane = 0, const SpanDetails& details = {});
  void Instant(SpanKind kind);

  // Moves up to `most` spans out, with the clock as it is now and how many were dropped since the
  // last call.
  void Drain(size_t most, proto::TraceEvents* events);

 private:
  struct Cell;

  bool Push(const TraceSpan& span);
  bool Pop(TraceSpan* span) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  env::Env* const env_;
  const uint64_t mask_;
  std::atomic<bool> enabled_{false};
  std::atomic<Cell*> cells_{nullptr};
  std::atomic<uint64_t> head_{0};  // the next to be written
  std::atomic<int64_t> dropped_{0};
  absl::Mutex mu_;  // of those who drain and enable
  uint64_t tail_ ABSL_GUARDED_BY(mu_) = 0;
  std::unique_ptr<Cell[]> memory_ ABSL_GUARDED_BY(mu_);
};

// A span from here to End, or to the end of the scope. Null: none.
class TraceScope {
 public:
  TraceScope(TraceRecorder* recorder, SpanKind kind, uint64_t closure = 0, uint32_t step = 0)
      : recorder_(recorder != nullptr && recorder->enabled() ? recorder : nullptr),
        kind_(kind),
        closure_(closure),
        step_(step) {
    if (recorder_ != nullptr) start_ = recorder_->Now();
  }
  ~TraceScope() { End(); }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

  void set_kind(SpanKind kind) { kind_ = kind; }
  void set_staleness(int64_t staleness) { details_.staleness = staleness; }
  // For one who may have lost the recorder when the scope ends.
  void End() {
    if (recorder_ == nullptr) return;
    recorder_->Record(kind_, start_, recorder_->Now(), closure_, step_, 0, details_);
    recorder_ = nullptr;
  }

 private:
  TraceRecorder* recorder_;
  SpanKind kind_;
  const uint64_t closure_;
  const uint32_t step_;
  SpanDetails details_;
  absl::Duration start_;
};

// How the tracks of a TraceEvents are to be shown, by their names: "thread 3" holds spans that
// nest, "events" instants, any other spans that may overlap.
bool IsThreadTrack(absl::string_view track);
bool IsInstantTrack(absl::string_view track);

}  // namespace coxswain::trace
