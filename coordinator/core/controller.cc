#include "coordinator/core/controller.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/notification.h"
#include "coordinator/core/task_reasons.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/cluster/control.h"

namespace coxswain {
namespace {

// How long a daemon has to take note that the session is over; later its lease ends it.
constexpr absl::Duration kGoodbyeTimeout = absl::Milliseconds(500);
constexpr absl::Duration kWatchInterval = ClosureDeadlines::kInterval;
// A wait is mentioned after the first and then every second of these.
constexpr absl::Duration kSayAfter = absl::Seconds(5), kSayAgain = absl::Seconds(30);
constexpr absl::Duration kSlowCheckpoint = absl::Minutes(1);

// Of one wave a process that died is heard of at once, a machine that vanished a lease and a ping
// later.
QuarantineOptions QuarantineOf(const ControllerOptions& options) {
  QuarantineOptions quarantine;
  quarantine.after = options.recovery.quarantine_after;
  quarantine.calm = 2 * options.lease;
  quarantine.patience = 2.5 * options.lease;
  quarantine.window = 1.5 * options.lease;
  return quarantine;
}

// The log, without which there is no checkpoint, must hold all of it and what comes during one.
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

absl::Status CancelledClosure(absl::string_view what) {
  return WithDetail(absl::CancelledError(what), {ErrorCause::kCancelled, false, "", 0});
}

SpanKind SpanOf(ClusterEvent::Kind kind) {
  switch (kind) {
    case ClusterEvent::Kind::kWorkerLost:
      return SpanKind::kWorkerLost;
    case ClusterEvent::Kind::kWorkerJoined:
      return SpanKind::kWorkerJoined;
    case ClusterEvent::Kind::kPsLost:
      return SpanKind::kPsLost;
    case ClusterEvent::Kind::kRecovered:
      return SpanKind::kRecovered;
    default:
      return SpanKind::kOtherEvent;
  }
}

}  // namespace

Controller::Controller(Env* env, Transport* transport, ControllerOptions options)
    : env_(env),
      transport_(transport),
      options_(std::move(options)),
      nonce_(env->Random64()),
      trace_(env),
      loop_(env->NewLoop()),
      incarnations_(options_.incarnations),
      closures_(ClosuresOf(options_)),
      plans_(static_cast<int>(options_.ps.size())),
      recovery_(options_.recovery.ps_return_timeout) {}

Controller::~Controller() {
  auto said = std::make_shared<absl::Notification>();
  loop_->Post([this, said] {
    ending_ = true;
    if (abandoned_) {
      said->Notify();
      return;
    }
    FailAll(absl::CancelledError("the coordinator ends"));
    auto gather = NewStatusGather([said](absl::Status) { said->Notify(); });
    for (auto* tasks : {&workers_, &ps_}) {
      for (auto& session : *tasks) {
        proto::ControlRequest goodbye;
        goodbye.mutable_end_session();
        session->Request(goodbye, {}, gather->Add<TaskSession::Response>());
      }
    }
    gather->Finish();
  });
  said->WaitForNotificationWithTimeout(kGoodbyeTimeout);
  absl::Notification stopped;
  loop_->Post([this, &stopped] {
    alive_.reset();
    checkpointer_ = nullptr;
    for (auto* tasks : {&workers_, &ps_}) {
      for (auto& session : *tasks) session->Stop();
    }
    stopped.Notify();
  });
  stopped.WaitForNotification();  // tasks of the loop do not block
}

void Controller::Abandon() {
  loop_->Post([this] {
    ending_ = abandoned_ = true;
    failed_ = absl::CancelledError("the coordinator ends");
    alive_.reset();
    checkpointer_ = nullptr;
    for (auto* tasks : {&workers_, &ps_}) {
      for (auto& session : *tasks) session->Stop();
    }
  });
}

void Controller::PostAfter(absl::Duration delay, std::function<void()> task) {
  loop_->PostAfter(delay, [alive = std::weak_ptr<bool>(alive_), task = std::move(task)] {
    if (!alive.expired()) task();
  });
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

void Controller::Start(DoneFn done) {
  loop_->Post([this, done = std::move(done)]() mutable {
    start_done_ = std::move(done);
    start_time_ = env_->Monotonic();
    Connect();
    PostAfter(options_.straggler_timeout, [this] { CheckStarted(/*timed_out=*/false); });
    PostAfter(options_.connect_timeout, [this] { CheckStarted(/*timed_out=*/true); });
  });
}

void Controller::Connect() {
  for (int p = 0; p < num_ps(); ++p) ps_.push_back(NewSession("ps", p, options_.ps[p]));
  for (int w = 0; w < num_workers(); ++w) {
    workers_.push_back(NewSession("worker", w, options_.workers[w]));
  }
  worker_table_.Resize(num_workers());
  for (auto& session : ps_) session->Start();
  for (auto& session : workers_) session->Start();
}

std::shared_ptr<TaskSession> Controller::NewSession(const std::string& job, int task,
                                                    const std::string& address) {
  TaskSession::Options options;
  options.job = job;
  options.task = task;
  options.address = address;
  options.coordinator_name = options_.name;
  options.lease = options_.lease;
  if (const auto it = incarnations_.find(address); it != incarnations_.end()) {
    options.incarnation = it->second;
  }
  TaskSession::Events events;
  const bool is_ps = job == "ps";
  events.on_answered = [this, is_ps, task] {
    OnAnswered((is_ps ? ps_ : workers_)[static_cast<size_t>(task)].get());
  };
  events.on_up = [this, is_ps, task] { is_ps ? OnPsUp(task) : OnWorkerUp(task); };
  events.on_down = [this, is_ps, task](absl::Status s) {
    if (ending_) return;
    is_ps ? OnPsDown(task, s) : OnWorkerDown(task, s);
  };
  events.on_refused = [this, is_ps, name = absl::StrCat("/job:", job, "/task:", task)](
                          absl::Status s) { OnRefused(is_ps, name, std::move(s)); };
  events.on_data = [this, is_ps, task](Message m) {
    if (!is_ps) OnWorkerData(task, std::move(m));
  };
  // While a PS is recovered, closures that were over become open again: no mark then.
  events.low_water = [this] { return recovery_.running() ? closures_.low_water() : 0; };
  return std::make_shared<TaskSession>(env_, loop_, transport_, std::move(options),
                                       std::move(events));
}

TaskSession* Controller::first_ps() const {
  return std::min_element(ps_.begin(), ps_.end(),
                          [](const auto& a, const auto& b) { return a->address() < b->address(); })
      ->get();
}

void Controller::OnAnswered(TaskSession* task) {
  refusals_.erase(task->name());
  if (claimed_) {
    task->Claim(session_);
  } else {
    ChooseSession();
  }
}

void Controller::ChooseSession() {
  TaskSession* const first = first_ps();
  if (!first->answered()) return;  // or it is being claimed
  Epoch highest = 0;
  for (const auto& p : ps_) {
    if (!p->up() && !p->answered()) return;
    highest = std::max(highest, p->highest_epoch());
  }
  for (const auto& w : workers_) highest = std::max(highest, w->highest_epoch());
  session_ = {std::max(NextEpoch(highest), std::min(options_.min_epoch, kMaxEpoch)), nonce_};
  session_id_ = session_.id();
  first->Claim(session_);
}

void Controller::OnRefused(bool is_ps, const std::string& task, absl::Status status) {
  refusals_[task] = std::move(status);
  const absl::Status& refusal = refusals_[task];
  const auto detail = GetDetail(refusal);
  const ErrorCause cause = detail ? detail->cause : ErrorCause::kUnknown;
  // A PS that was held is with another coordinator, or was. A worker that is may come back.
  if (cause == ErrorCause::kStaleEpoch && is_ps) {
    const absl::Status lost =
        Annotate(refusal, "another coordinator has taken over the cluster, this one ends");
    if (start_done_) {
      FinishStart(WithDetail(lost, {ErrorCause::kClusterHeld, true, "", 0}));
    } else if (started_ && failed_.ok()) {
      FailAll(lost);
    }
  }
  if (start_done_ && cause == ErrorCause::kConfiguration) {
    FinishStart(refusal);
    return;
  }
  // A live coordinator holds the cluster: its lease has been given time to run out.
  if (start_done_ && cause == ErrorCause::kClusterHeld &&
      env_->Monotonic() - start_time_ > options_.lease + absl::Seconds(1)) {
    FinishStart(refusal);
  }
}

void Controller::CheckStarted(bool timed_out) {
  if (!start_done_) return;
  const int ready = closures_.workers();
  const bool waited = env_->Monotonic() - start_time_ >= options_.straggler_timeout;
  if (AllPsUp() && (ready == num_workers() || (ready > 0 && waited))) {
    for (auto& w : workers_) {
      if (!worker_table_.ready(w->task())) LogWarning("starting without ", w->name());
    }
    FinishStart(absl::OkStatus());
  } else if (timed_out) {
    FinishStart(Unreachable());
  }
}

std::vector<std::string> Controller::MissingTasks() const {
  std::vector<TaskReason> missing;
  for (const auto* tasks : {&ps_, &workers_}) {
    for (const auto& session : *tasks) {
      const bool is_ps = session->job() == "ps";
      // Those that answered are not claimed before all PS have, and workers are set up after that.
      const bool there =
          session->answered() || (session->up() && (is_ps || !AllPsUp())) ||
          (is_ps ? absent_.count(session->task()) > 0 : worker_table_.ready(session->task()));
      if (there) continue;
      const std::string place = absl::StrCat(session->name(), " at ", session->address());
      const auto it = refusals_.find(session->name());
      absl::string_view reason = it == refusals_.end() ? "no answer" : it->second.message();
      if (!absl::ConsumePrefix(&reason, place + ": ")) {
        absl::ConsumePrefix(&reason, session->name() + ": ");
      }
      missing.push_back({place, std::string(reason)});
    }
  }
  return GroupByReason(missing);
}

absl::Status Controller::Unreachable() const {
  return WithDetail(
      absl::UnavailableError(absl::StrCat("the cluster could not be reached within ",
                                          absl::FormatDuration(options_.connect_timeout), ": ",
                                          absl::StrJoin(MissingTasks(), "; "))),
      {ErrorCause::kUnreachable, true, "", 0});
}

void Controller::FinishStart(absl::Status status) {
  started_ = status.ok();
  if (started_) Watch();
  DoneFn done = std::exchange(start_done_, nullptr);
  done(std::move(status));
}

std::string Controller::WaitingFor() const {
  if (moves_.phase == MovePhase::kRestoring) return "shards to move to other parameter servers";
  if (!recovery_.running()) {
    return absl::StrCat(recovery_.restoring() ? "shards to be restored" : "parameter servers", ": ",
                        recovery_.ToString(env_->Monotonic()));
  }
  if (closures_.workers() == 0) {
    return absl::StrCat("a worker: ", absl::StrJoin(MissingTasks(), "; "));
  }
  return "";
}

// Says what is waited for when nothing can run, and ends the wait when it takes too long.
void Controller::Watch() {
  const absl::Duration now = env_->Monotonic();
  PostAfter(kWatchInterval, [this, due = now + kWatchInterval] {
    // Time in which this process itself stood still is no wait for others.
    const absl::Duration late = env_->Monotonic() - due;
    if (stalled_since_ && late > kWatchInterval) *stalled_since_ += late;
    Watch();
  });
  WatchCheckpoint(now);
  CheckDeadlines(now);
  const std::string waiting_for = WaitingFor();
  if (waiting_for.empty() || (closures_.empty() && parked_.empty()) || !failed_.ok()) {
    stalled_since_ = stall_said_ = std::nullopt;
    return;
  }
  if (!stalled_since_) stalled_since_ = now;
  const absl::Duration waited = now - *stalled_since_;
  if (waited >= options_.recovery.cluster_timeout) {
    FailAll(WithDetail(
        absl::UnavailableError(absl::StrCat("nothing could run for ", absl::FormatDuration(waited),
                                            "; waited for ", waiting_for)),
        {ErrorCause::kUnreachable, true, "", 0}));
    return;
  }
  if (stall_said_ ? now - *stall_said_ >= kSayAgain : waited >= kSayAfter) {
    stall_said_ = now;
    Emit(ClusterEvent::Kind::kWaiting, "",
         absl::StrCat("waiting for ", waiting_for, "; the job fails if that takes more than ",
                      absl::FormatDuration(options_.recovery.cluster_timeout)));
  }
}

void Controller::WatchCheckpoint(absl::Duration now) {
  if (checkpointer_ == nullptr || checkpointer_->age(now) < kSlowCheckpoint) {
    slow_said_ = std::nullopt;
  } else if (!slow_said_ || now - *slow_said_ >= kSlowCheckpoint) {
    slow_said_ = now;
    Emit(ClusterEvent::Kind::kWaiting, "",
         absl::StrCat(checkpointer_->ToString(now), "; training goes on, and no other checkpoint ",
                      "is written meanwhile"));
  }
}

void Controller::FailAll(const absl::Status& status) {
  if (failed_.ok()) failed_ = status;
  if (checkpointer_ != nullptr) checkpointer_->Abort(status);
  for (const ResultFn& done : closures_.CancelAll()) done(status);
  auto parked = std::exchange(parked_, {});
  for (auto& request : parked) request();  // they see failed_
  ReleaseWrites();
  for (DoneFn& done : std::exchange(settling_, {})) done(status);
}

void Controller::RegisterDataset(DatasetId id, proto::DatasetSpec spec,
                                 std::function<void(absl::StatusOr<WorkerDataset>)> done) {
  loop_->Post([this, id, spec = std::move(spec), done = std::move(done)]() mutable {
    auto result = std::make_shared<WorkerDataset>();
    const DatasetTable::Registration registration = datasets_.Register(id, std::move(spec));
    auto gather =
        NewStatusGather([this, result, registration, done = std::move(done)](absl::Status status) {
          if (status.ok()) {
            // A checkpoint tells it from others of the same data.
            if (datasets_.IsCurrent(registration)) closures_.KnowDataset(registration.dataset);
            done(*result);
          } else {
            datasets_.Withdraw(registration);
            done(status);
          }
        });
    for (auto& worker : workers_) {
      if (!worker->up()) continue;
      worker->Request(datasets_.Request(id), {},
                      [this, result, worker, registration,
                       count = gather->AddUnlessLost<TaskSession::Response>()](
                          absl::StatusOr<TaskSession::Response> response) {
                        if (response.ok() && response->reply.has_dataset_ready() &&
                            datasets_.IsCurrent(registration)) {
                          const proto::DatasetReady& ready = response->reply.dataset_ready();
                          result->fingerprint = ready.fingerprint();
                          result->examples.assign(ready.examples().begin(), ready.examples().end());
                          const absl::Status same = datasets_.Check(registration.dataset, ready);
                          if (!same.ok()) response = Annotate(same, worker->name());
                        }
                        count(std::move(response));
                      });
    }
    gather->Finish();
  });
}

void Controller::Schedule(ClosureSpec spec, ResultFn done) {
  loop_->Post([this, spec = std::move(spec), done = std::move(done)]() mutable {
    if (!failed_.ok()) {
      done(failed_);
      return;
    }
    const bool updates = plans_.Updates(spec.plan);
    const absl::StatusOr<ClosureId> id = closures_.Schedule(std::move(spec), updates);
    if (!id.ok()) {
      done(id.status());
      return;
    }
    ClosureTable::Closure* closure = closures_.Find(*id);
    closure->done = std::move(done);
    if (trace_.enabled()) closure->scheduled = trace_.Now();
    // What was written to shards by hand is in no checkpoint yet; a lost PS would take it along.
    if (written_uncovered_ && retry_written_ && checkpointer_ != nullptr && recovery_.running()) {
      written_uncovered_ = false;
      Checkpoint(nullptr);
    }
    Dispatch();
  });
}

void Controller::CancelClosures(uint64_t owner) {
  loop_->Post([this, owner] {
    for (ClosureId id : closures_.CancelQueued(owner)) {
      Resolve(id, CancelledClosure(absl::StrCat("closure ", id, " was cancelled")));
    }
    const auto running = closures_.CancelRunning(owner);
    for (const auto& [worker, closures] : running) AskToCancel(worker, closures);
    Dispatch();  // others may have waited for these
  });
}

void Controller::DropCancelled() {
  for (ClosureId id : closures_.TakeCancelled()) {
    Resolve(id, CancelledClosure(absl::StrCat("closure ", id, " was cancelled")));
  }
}

void Controller::Dispatch() {
  if (!recovery_.running()) return;
  const absl::Duration now = env_->Monotonic();
  GiveUpQuarantined(now);
  if (Moving()) {
    CheckDrained();
    return;
  }
  std::vector<std::pair<Dispatcher::Assignment, absl::Status>> refused;
  for (const Dispatcher::Assignment& a : closures_.TakeAssignments(now)) {
    ClosureRequest request = closures_.RequestFor(a);
    request.session = session_.id();
    request.generation = generation_;
    Message message = Encode(std::move(request));
    const size_t bytes = message.wire_bytes(), most = workers_[a.worker]->max_message_bytes();
    if (bytes > most) {
      refused.push_back({a, TooLargeToSend("what is passed to the function", bytes, most,
                                           workers_[a.worker]->name(), 0)});
      continue;
    }
    closures_.Sent(a.closure, now);
    if (trace_.enabled()) closures_.Find(a.closure)->sent = trace_.Now();
    workers_[a.worker]->Send(std::move(message));
  }
  DispatchAt(closures_.next_time());
  for (const auto& [a, status] : refused) {
    if (closures_.Refused(a)) Resolve(a.closure, Annotate(status, closures_.Describe(a.closure)));
  }
  // There is room again. Not from here: with a queue full of these it would go as deep.
  if (!refused.empty()) PostAfter(absl::ZeroDuration(), [this] { Dispatch(); });
}

void Controller::DispatchAt(absl::Duration when) {
  if (when == dispatch_at_) return;
  dispatch_at_ = when;
  if (when == absl::InfiniteDuration()) return;
  PostAfter(std::max(absl::ZeroDuration(), when - env_->Monotonic()), [this, when] {
    if (dispatch_at_ != when) return;  // another time since
    dispatch_at_ = absl::InfiniteDuration();
    Dispatch();
  });
}

void Controller::Resolve(ClosureId id, absl::StatusOr<std::vector<Tensor>> results) {
  std::optional<ClosureTable::Closure> closure = closures_.End(id, results.status());
  if (!closure) return;
  Trace(SpanKind::kAttempt, id, &closure->sent, closure->worker);
  Trace(SpanKind::kScheduled, id, &closure->scheduled);
  if (closure->done) {
    closure->done(std::move(results));
  } else {
    if (!results.ok()) {
      FailAll(Annotate(results.status(), "run again after a parameter server was lost"));
    }
    if (closures_.rerun_open() <= 0) ReleaseWrites();
  }
  CheckpointBySteps();
  if (closures_.empty()) {
    for (DoneFn& done : std::exchange(settling_, {})) AwaitSettled(std::move(done));
  }
}

void Controller::Trace(SpanKind kind, ClosureId closure, absl::Duration* since, int lane) {
  if (*since == absl::ZeroDuration()) return;
  trace_.Record(kind, *since, trace_.Now(), closure, 0, static_cast<uint32_t>(lane));
  *since = absl::ZeroDuration();
}

void Controller::AwaitSettled(DoneFn done) {
  loop_->Post([this, done = std::move(done)]() mutable {
    if (!failed_.ok()) {
      done(failed_);
    } else if (!recovery_.running() || Moving()) {
      parked_.push_back(
          [this, done = std::move(done)]() mutable { AwaitSettled(std::move(done)); });
    } else if (!closures_.empty()) {
      settling_.push_back(std::move(done));
    } else {
      done(absl::OkStatus());
    }
  });
}

void Controller::OnClosureFailed(int worker, ClosureReply reply) {
  const auto detail = GetDetail(reply.status);
  const bool cancelled = detail && detail->cause == ErrorCause::kCancelled;
  // A worker gives up what it has when its session ends, before this end notices.
  const ClosureTable::Closure* closure = closures_.Find(reply.closure);
  const bool given_up = cancelled && closure != nullptr && !closure->cancelled;
  if ((IsLost(reply.status) || given_up) && closures_.IsCurrent(reply.closure, reply.attempt)) {
    // Not the closure's fault. Either its PS is lost, which will be known soon, or this worker's
    // way there: then it is set up again, which works once the way is there.
    if (!recovery_.running()) {
      closures_.Retry(reply.closure, reply.attempt);
      DropCancelled();
    } else {
      OnWayLost(worker, reply.status);
      Dispatch();
    }
    return;
  }
  if (!closures_.Failed(reply.closure, reply.attempt)) return;
  if (!cancelled) worker_table_.Answered(worker);
  absl::Status status = Annotate(reply.status, closures_.Describe(reply.closure));
  Dispatch();
  Resolve(reply.closure, std::move(status));
}

void Controller::QueryStatus(std::function<void(std::vector<proto::TaskStatus>)> done) {
  loop_->Post([this, done = std::move(done)]() mutable {
    auto all = std::make_shared<std::vector<proto::TaskStatus>>();
    auto gather = NewStatusGather([all, done = std::move(done)](absl::Status) { done(*all); });
    for (auto* tasks : {&ps_, &workers_}) {
      for (auto& session : *tasks) {
        proto::ControlRequest request;
        request.mutable_status();
        session->Request(std::move(request), {},
                         [all, count = gather->AddUnlessLost<TaskSession::Response>()](
                             absl::StatusOr<TaskSession::Response> response) {
                           if (response.ok()) all->push_back(response->reply.task_status());
                           count(std::move(response));
                         });
      }
    }
    gather->Finish();
  });
}

void Controller::QueryTrace(bool enable, std::function<void(std::vector<TaskTrace>)> done) {
  loop_->Post([this, enable, done = std::move(done)]() mutable {
    auto all = std::make_shared<std::vector<TaskTrace>>();
    const auto now_us = [this] { return absl::ToInt64Microseconds(trace_.Now()); };
    auto gather =
        NewStatusGather([this, enable, all, now_us, done = std::move(done)](absl::Status) {
          trace_.Enable(enable);
          TaskTrace& own = all->emplace_back();
          own.task = "/job:coordinator";
          // Before and after, as of the others: a clock that goes on in between is not off.
          own.asked_us = now_us();
          trace_.Drain(TraceRecorder::kMostAtOnce, &own.events);
          own.answered_us = now_us();
          done(std::move(*all));
        });
    for (auto* tasks : {&ps_, &workers_}) {
      for (auto& session : *tasks) {
        proto::ControlRequest request;
        request.mutable_trace()->set_enable(enable);
        session->Request(std::move(request), {},
                         [all, session, now_us, asked = now_us(),
                          count = gather->AddUnlessLost<TaskSession::Response>()](
                             absl::StatusOr<TaskSession::Response> response) {
                           if (response.ok()) {
                             TaskTrace& trace = all->emplace_back();
                             trace.task = session->name();
                             trace.incarnation = session->incarnation();
                             trace.asked_us = asked;
                             trace.answered_us = now_us();
                             trace.events = std::move(*response->reply.mutable_trace());
                           }
                           count(std::move(response));
                         });
      }
    }
    gather->Finish();
  });
}

void Controller::GetStats(std::function<void(Stats)> done) {
  loop_->Post([this, done = std::move(done)] {
    Stats stats;
    stats.closures = closures_.stats();
    stats.failures = failures_;
    stats.failures.closures_rerun = static_cast<int64_t>(stats.closures.rerun);
    if (checkpointer_ != nullptr) stats.checkpoints = checkpointer_->stats();
    stats.checkpoints.shards_moved = moves_.shards;
    stats.checkpoints.move_seconds = moves_.seconds;
    stats.open = closures_.open();
    stats.workers_ready = closures_.workers();
    stats.workers = static_cast<int>(workers_.size());
    stats.waiting_for = WaitingFor();
    if (stats.waiting_for.empty()) stats.waiting_for = HeldBackBy();
    done(std::move(stats));
  });
}

}  // namespace coxswain
