#include "coordinator/core/controller.h"

#include <algorithm>
#include <utility>

#include "absl/synchronization/notification.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/cluster/control.h"

namespace coxswain::core {
namespace {

// How long to wait for daemons to learn that the session is over; otherwise their lease ends it.
constexpr absl::Duration kGoodbyeTimeout = absl::Milliseconds(500);
// In one wave of losses, a process that died is noticed at once, a machine that vanished after a
// lease and a ping.
QuarantineOptions QuarantineOf(const ControllerOptions& options) {
  QuarantineOptions quarantine;
  quarantine.after = options.recovery.quarantine_after;
  quarantine.calm = 2 * options.lease;
  quarantine.patience = 2.5 * options.lease;
  quarantine.window = 1.5 * options.lease;
  return quarantine;
}

// The log, which checkpoints depend on, must hold the whole window and the closures that complete
// during a checkpoint.
ClosureId WindowOf(const RecoveryOptions& recovery) {
  constexpr int64_t kLeast = 1024;
  int64_t window = std::max<int64_t>(1, recovery.max_window);
  if (recovery.max_log_closures > 0) {
    window = std::min(window, std::max(kLeast, recovery.max_log_closures / 2));
  }
  return static_cast<ClosureId>(window);
}

ClosureTableOptions ClosuresOf(const ControllerOptions& options) {
  ClosureTableOptions closures;
  closures.in_flight = options.in_flight;
  closures.quarantine = QuarantineOf(options);
  closures.window = WindowOf(options.recovery);
  closures.deadlines.fixed = options.recovery.closure_timeout;
  closures.most_timeouts = options.recovery.most_timeouts;
  closures.max_log_closures = options.recovery.max_log_closures;
  closures.max_log_bytes = options.recovery.max_log_bytes;
  return closures;
}

trace::SpanKind SpanOf(ClusterEvent::Kind kind) {
  switch (kind) {
    case ClusterEvent::Kind::kWorkerLost:
      return trace::SpanKind::kWorkerLost;
    case ClusterEvent::Kind::kWorkerJoined:
      return trace::SpanKind::kWorkerJoined;
    case ClusterEvent::Kind::kPsLost:
      return trace::SpanKind::kPsLost;
    case ClusterEvent::Kind::kRecovered:
      return trace::SpanKind::kRecovered;
    default:
      return trace::SpanKind::kOtherEvent;
  }
}

}  // namespace

Controller::Controller(env::Env* env, net::Transport* transport, ControllerOptions options)
    : env_(env),
      options_(std::move(options)),
      hold_(env->Random64(), options_.min_epoch),
      trace_(env),
      loop_(env->NewLoop()),
      tasks_(env, loop_.get(), transport, {options_.name, options_.lease, options_.incarnations},
             [this](const std::string& job, int task) { return EventsOf(job, task); }),
      closures_(ClosuresOf(options_)),
      plans_(static_cast<int>(options_.ps.size())),
      recovery_(options_.recovery.ps_return_timeout),
      most_stall_(options_.recovery.cluster_timeout) {}

Controller::~Controller() {
  auto said = std::make_shared<absl::Notification>();
  loop_.Post([this, said] {
    life_.End();
    if (life_.abandoned()) {
      said->Notify();
      return;
    }
    FailAll(absl::CancelledError("the coordinator ends"));
    auto gather = NewStatusGather([said](absl::Status) { said->Notify(); });
    for (const auto* tasks : {&tasks_.workers(), &tasks_.ps()}) {
      for (const auto& session : *tasks) {
        proto::ControlRequest goodbye;
        goodbye.mutable_end_session();
        session->Request(goodbye, {}, gather->Add<TaskSession::Response>());
      }
    }
    gather->Finish();
  });
  said->WaitForNotificationWithTimeout(kGoodbyeTimeout);
  absl::Notification stopped;
  loop_.Post([this, &stopped] {
    LetGo();
    stopped.Notify();
  });
  stopped.WaitForNotification();  // tasks of the loop do not block
}

void Controller::Abandon() {
  loop_.Post([this] {
    life_.Abandon(absl::CancelledError("the coordinator ends"));
    LetGo();
  });
}

void Controller::LetGo() {
  loop_.AssertOnLoop();
  loop_.LetGo();
  checkpoints_.Stop();
  tasks_.Stop();
}

void Controller::Emit(ClusterEvent::Kind kind, std::string task, std::string message) {
  trace_.Instant(SpanOf(kind));
  if (options_.on_event) {
    options_.on_event({kind, std::move(task), std::move(message)});
    return;
  }
  const bool good = kind == ClusterEvent::Kind::kWorkerJoined ||
                    kind == ClusterEvent::Kind::kCheckpoint ||
                    kind == ClusterEvent::Kind::kShardsMoved;
  if (good) {
    LogInfo(task, task.empty() ? "" : ": ", message);
  } else {
    LogWarning(task, task.empty() ? "" : ": ", message);
  }
}

void Controller::FailAll(const absl::Status& status) {
  loop_.AssertOnLoop();
  life_.Fail(status);
  checkpoints_.GiveUpStart(status);
  checkpoints_.Abort(status);
  EndStepPause(status);
  for (const ResultFn& done : closures_.CancelAll()) done(status);
  Unpark();  // they see life_.failed()
  for (auto& request : checkpoints_.TakePostponed()) request();
  ReleaseWrites();
  for (DoneFn& done : closures_.TakeAwaiting()) done(status);
}

}  // namespace coxswain::core
