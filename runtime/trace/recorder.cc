// Kinds of spans with their names and tracks; then the recorder: its queue, and what leaves it.
#include "runtime/trace/recorder.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"

namespace coxswain::trace {
namespace {

constexpr char kThreads[] = "thread ";
constexpr char kEvents[] = "events";

struct KindInfo {
  const char* name;
  const char* group;
  bool has_lane;  // the group has a track for each lane
};

KindInfo InfoOf(SpanKind kind) {
  switch (kind) {
    case SpanKind::kClosure:
      return {"closure", "closures", false};
    case SpanKind::kStep:
      return {"step", "steps", false};
    case SpanKind::kInput:
      return {"input", kThreads, true};
    case SpanKind::kCompute:
      return {"compute", kThreads, true};
    case SpanKind::kPsCall:
      return {"call", "calls to ps:", true};
    case SpanKind::kGpu:
      return {"gpu", "steps on gpu:", true};
    case SpanKind::kGpuCompute:
      return {"compute", "computing on gpu:", true};
    case SpanKind::kCopyToGpu:
      return {"copy", "copies to gpu:", true};
    case SpanKind::kCopyFromGpu:
      return {"copy", "copies from gpu:", true};
    case SpanKind::kCopyBetweenGpus:
      return {"copy", "copies from other gpus to gpu:", true};
    case SpanKind::kSegment:
      return {"segment", kThreads, true};
    case SpanKind::kGather:
      return {"gather", kThreads, true};
    case SpanKind::kStage:
      return {"stage", kThreads, true};
    case SpanKind::kHold:
      return {"hold", kThreads, true};
    case SpanKind::kApply:
      return {"apply", kThreads, true};
    case SpanKind::kCheckpointCut:
      return {"checkpoint cut", kThreads, true};
    case SpanKind::kCheckpointSave:
      return {"checkpoint files", "checkpoints", false};
    case SpanKind::kScheduled:
      return {"closure", "closures", false};
    case SpanKind::kAttempt:
      return {"attempt", "closures of worker:", true};
    case SpanKind::kCheckpoint:
      return {"checkpoint", "checkpoints", false};
    case SpanKind::kWorkerLost:
      return {"worker lost", kEvents, false};
    case SpanKind::kWorkerJoined:
      return {"worker joined", kEvents, false};
    case SpanKind::kPsLost:
      return {"ps lost", kEvents, false};
    case SpanKind::kRecovered:
      return {"recovered", kEvents, false};
    case SpanKind::kOtherEvent:
      return {"event", kEvents, false};
  }
  return {"?", kEvents, false};
}

bool OfThread(SpanKind kind) { return InfoOf(kind).group == kThreads; }

// Small numbers, by when a thread recorded its first span.
uint32_t ThreadLane() {
  static std::atomic<uint32_t> last{0};
  thread_local const uint32_t lane = last.fetch_add(1, std::memory_order_relaxed);
  return lane;
}

// The position of `name` in a repeated field, appended when it is new.
class Names {
 public:
  explicit Names(google::protobuf::RepeatedPtrField<std::string>* out) : out_(out) {}

  template <typename MakeName>
  uint32_t Find(std::pair<uint32_t, uint32_t> key, MakeName make) {
    const auto [it, is_new] = index_.try_emplace(key, static_cast<uint32_t>(out_->size()));
    if (is_new) *out_->Add() = make();
    return it->second;
  }

 private:
  google::protobuf::RepeatedPtrField<std::string>* out_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> index_;
};

}  // namespace

bool IsThreadTrack(absl::string_view track) { return absl::StartsWith(track, kThreads); }
bool IsInstantTrack(absl::string_view track) { return track == kEvents; }

// A bounded queue of many writers (D. Vyukov's): a cell's turn says whose it is. Equal to the
// position: free for the writer that takes it; one more: to be read.
struct TraceRecorder::Cell {
  std::atomic<uint64_t> turn{0};
  TraceSpan span;
};

TraceRecorder::TraceRecorder(env::Env* env, size_t capacity) : env_(env), mask_(capacity - 1) {
  COX_CHECK(capacity > 0 && (capacity & mask_) == 0, "capacity ", capacity);
}

TraceRecorder::~TraceRecorder() = default;

void TraceRecorder::Enable(bool enable) {
  absl::MutexLock lock(&mu_);
  if (enable && memory_ == nullptr) {
    memory_ = std::make_unique<Cell[]>(mask_ + 1);
    for (uint64_t i = 0; i <= mask_; ++i) memory_[i].turn.store(i, std::memory_order_relaxed);
    cells_.store(memory_.get(), std::memory_order_release);
  }
  enabled_.store(enable, std::memory_order_relaxed);
}

void TraceRecorder::Record(SpanKind kind, absl::Duration start, absl::Duration end,
                           uint64_t closure, uint32_t step, uint32_t lane,
                           const SpanDetails& details) {
  if (!enabled()) return;
  TraceSpan span;
  span.kind = kind;
  span.lane = OfThread(kind) ? ThreadLane() : lane;
  span.step = step;
  span.closure = closure;
  span.details = details;
  // Both ends are rounded down, so that what nests does so in microseconds too.
  span.start_us = absl::ToInt64Microseconds(start);
  span.duration_us = absl::ToInt64Microseconds(end) - span.start_us;
  if (!Push(span)) dropped_.fetch_add(1, std::memory_order_relaxed);
}

void TraceRecorder::Instant(SpanKind kind) {
  if (!enabled()) return;
  const absl::Duration now = Now();
  Record(kind, now, now);
}

bool TraceRecorder::Push(const TraceSpan& span) {
  Cell* const cells = cells_.load(std::memory_order_acquire);
  if (cells == nullptr) return false;
  uint64_t position = head_.load(std::memory_order_relaxed);
  while (true) {
    Cell& cell = cells[position & mask_];
    const uint64_t turn = cell.turn.load(std::memory_order_acquire);
    if (turn == position) {
      if (!head_.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) continue;
      cell.span = span;
      cell.turn.store(position + 1, std::memory_order_release);
      return true;
    }
    if (turn < position) return false;  // not read yet: full
    position = head_.load(std::memory_order_relaxed);
  }
}

bool TraceRecorder::Pop(TraceSpan* span) {
  Cell& cell = memory_[tail_ & mask_];
  if (cell.turn.load(std::memory_order_acquire) != tail_ + 1) return false;
  *span = cell.span;
  cell.turn.store(tail_ + mask_ + 1, std::memory_order_release);
  ++tail_;
  return true;
}

void TraceRecorder::Drain(size_t most, proto::TraceEvents* events) {
  events->set_now_us(absl::ToInt64Microseconds(Now()));
  events->set_dropped(dropped_.exchange(0, std::memory_order_relaxed));
  Names names(events->mutable_names()), tracks(events->mutable_tracks());
  absl::MutexLock lock(&mu_);
  if (memory_ == nullptr) return;
  TraceSpan span;
  for (size_t i = 0; i < most && Pop(&span); ++i) {
    const KindInfo info = InfoOf(span.kind);
    const uint32_t kind = static_cast<uint32_t>(span.kind);
    events->add_name(names.Find({kind, 0}, [&] { return std::string(info.name); }));
    // Kinds of one group share a track only when it is a thread's.
    const bool thread = OfThread(span.kind);
    events->add_track(tracks.Find({thread ? ~0u : kind, info.has_lane ? span.lane : 0}, [&] {
      return info.has_lane ? absl::StrCat(info.group, span.lane) : std::string(info.group);
    }));
    events->add_start_us(span.start_us);
    events->add_duration_us(span.duration_us);
    events->add_closure(span.closure);
    events->add_step(span.step);
    events->add_staleness(span.details.staleness);
    events->add_bytes(span.details.bytes);
  }
}

}  // namespace coxswain::trace
