#include "coordinator/core/controller.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/cluster/control.h"

namespace coxswain {
namespace {

// How long a daemon has to take note that the session is over; later its lease ends it.
constexpr absl::Duration kGoodbyeTimeout = absl::Milliseconds(500);
constexpr absl::Duration kWatchInterval = absl::Seconds(1);
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

// The epoch grows with every coordinator that starts, on this machine or another with a sane clock.
Controller::Controller(Env* env, Transport* transport, ControllerOptions options)
    : env_(env),
      transport_(transport),
      options_(std::move(options)),
      epoch_(std::max(static_cast<Epoch>(absl::ToUnixMicros(env->Now())), options_.min_epoch)),
      trace_(env),
      loop_(env->NewLoop()),
      dispatcher_(std::max(1, options_.in_flight), QuarantineOf(options_)),
      recovery_(options_.recovery.ps_return_timeout),
      log_(options_.recovery.max_log_closures, options_.recovery.max_log_bytes) {}

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
  const bool good =
      kind == ClusterEvent::Kind::kWorkerJoined || kind == ClusterEvent::Kind::kCheckpoint ||
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
  worker_states_.resize(workers_.size());
  for (auto& session : ps_) session->Start();
  for (auto& session : workers_) session->Start();
}

std::shared_ptr<TaskSession> Controller::NewSession(const std::string& job, int task,
                                                    const std::string& address) {
  TaskSession::Options options;
  options.job = job;
  options.task = task;
  options.address = address;
  options.epoch = epoch_;
  options.coordinator_name = options_.name;
  options.lease = options_.lease;
  TaskSession::Events events;
  const bool is_ps = job == "ps";
  events.on_up = [this, is_ps, task] { is_ps ? OnPsUp(task) : OnWorkerUp(task); };
  events.on_down = [this, is_ps, task](absl::Status s) {
    if (ending_) return;
    is_ps ? OnPsDown(task, s) : OnWorkerDown(task, s);
  };
  events.on_refused = [this, name = absl::StrCat("/job:", job, "/task:", task)](absl::Status s) {
    OnRefused(name, std::move(s));
  };
  events.on_data = [this, is_ps, task](Message m) {
    if (!is_ps) OnWorkerData(task, std::move(m));
  };
  // While a PS is recovered, closures that were over become open again: no mark then.
  events.low_water = [this] { return recovery_.running() ? dispatcher_.low_water() : 0; };
  return std::make_shared<TaskSession>(env_, loop_, transport_, std::move(options),
                                       std::move(events));
}

void Controller::OnRefused(const std::string& task, absl::Status status) {
  refusals_[task] = std::move(status);
  if (TakenOver(refusals_[task])) return;
  // A live coordinator holds the cluster: its lease has been given time to run out.
  const auto detail = GetDetail(refusals_[task]);
  if (start_done_ && detail && detail->cause == ErrorCause::kClusterHeld &&
      env_->Monotonic() - start_time_ > options_.lease + absl::Seconds(1)) {
    FinishStart(refusals_[task]);
  }
}

// Epochs only grow: a task that has seen a newer coordinator never lets this one in again.
bool Controller::TakenOver(const absl::Status& refusal) {
  const auto detail = GetDetail(refusal);
  if (!detail || detail->cause != ErrorCause::kStaleEpoch) return false;
  if (start_done_) {
    FinishStart(Annotate(refusal,
                         "a newer coordinator was here; if none should be, this machine's clock is "
                         "behind"));
  } else if (started_ && failed_.ok()) {
    FailAll(Annotate(refusal, "another coordinator has taken over the cluster, this one ends"));
  }
  return true;
}

void Controller::CheckStarted(bool timed_out) {
  if (!start_done_) return;
  const int ready = dispatcher_.workers();
  const bool waited = env_->Monotonic() - start_time_ >= options_.straggler_timeout;
  if (AllPsUp() && (ready == num_workers() || (ready > 0 && waited))) {
    for (auto& w : workers_) {
      if (!worker_states_[w->task()].ready) LogWarning("starting without ", w->name());
    }
    FinishStart(absl::OkStatus());
  } else if (timed_out) {
    FinishStart(Unreachable());
  }
}

std::vector<std::string> Controller::MissingTasks() const {
  std::vector<std::string> missing;
  for (const auto* tasks : {&ps_, &workers_}) {
    for (const auto& session : *tasks) {
      const bool there = session->job() == "ps"
                             ? session->up() || absent_.count(session->task()) > 0
                             : worker_states_[session->task()].ready;
      if (there) continue;
      const auto it = refusals_.find(session->name());
      missing.push_back(it == refusals_.end() ? absl::StrCat(session->name(), " at ",
                                                             session->address(), ": no answer")
                                              : std::string(it->second.message()));
    }
  }
  return missing;
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
  if (dispatcher_.workers() == 0) {
    return absl::StrCat("a worker: ", absl::StrJoin(MissingTasks(), "; "));
  }
  return "";
}

// Says what is waited for when nothing can run, and ends the wait when it takes too long.
void Controller::Watch() {
  PostAfter(kWatchInterval, [this] { Watch(); });
  const absl::Duration now = env_->Monotonic();
  WatchCheckpoint(now);
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
  dispatcher_.CancelAll();
  auto closures = std::exchange(closures_, {});
  std::vector<ClosureId> ids;
  for (const auto& [id, closure] : closures) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  for (ClosureId id : ids) {
    if (closures[id].done) closures[id].done(status);
  }
  auto parked = std::exchange(parked_, {});
  for (auto& request : parked) request();  // they see failed_
  for (DoneFn& done : std::exchange(settling_, {})) done(status);
}

void Controller::RegisterDataset(DatasetId id, proto::DatasetSpec spec,
                                 std::function<void(absl::StatusOr<WorkerDataset>)> done) {
  loop_->Post([this, id, spec = std::move(spec), done = std::move(done)]() mutable {
    auto result = std::make_shared<WorkerDataset>();
    auto gather = NewStatusGather([result, done = std::move(done)](absl::Status status) {
      if (status.ok()) {
        done(*result);
      } else {
        done(status);
      }
    });
    datasets_[id] = {spec, std::nullopt};
    for (auto& worker : workers_) {
      if (!worker->up()) continue;
      proto::ControlRequest request;
      request.mutable_register_dataset()->set_dataset(id);
      *request.mutable_register_dataset()->mutable_spec() = spec;
      worker->Request(
          std::move(request), {},
          [this, id, result, worker, count = gather->AddUnlessLost<TaskSession::Response>()](
              absl::StatusOr<TaskSession::Response> response) {
            if (!response.ok() || !response->reply.has_dataset_ready()) {
              count(std::move(response));
              return;
            }
            const proto::DatasetReady& ready = response->reply.dataset_ready();
            if (absl::Status same = CheckData(id, ready); !same.ok()) {
              count(Annotate(same, worker->name()));
              return;
            }
            result->fingerprint = ready.fingerprint();
            result->examples.assign(ready.examples().begin(), ready.examples().end());
            count(std::move(response));
          });
    }
    gather->Finish();
  });
}

bool Controller::Updates(const ClosureSpec& spec) const {
  const auto plan = plans_.find(spec.plan);
  return plan != plans_.end() && !plan->second.updates.empty();
}

void Controller::Schedule(ClosureSpec spec, ResultFn done) {
  loop_->Post([this, spec = std::move(spec), done = std::move(done)]() mutable {
    if (!failed_.ok()) {
      done(failed_);
      return;
    }
    PendingClosure pending;
    ClosureId id = spec.resumed;
    pending.after = dispatcher_.low_water();
    if (id != 0) {
      if (!dispatcher_.ScheduleRestored(id)) {
        done(absl::InvalidArgumentError(
            absl::StrCat("closure ", id, " is none that the checkpoint wants to run again")));
        return;
      }
      pending.after = resumed_after_[id];
      dispatcher_.SetAfter(id, pending.after);
    } else {
      id = dispatcher_.Schedule();
    }
    if (Updates(spec)) steps_scheduled_ += spec.steps;
    pending.spec = std::move(spec);
    pending.done = std::move(done);
    if (trace_.enabled()) pending.scheduled = trace_.Now();
    closures_.emplace(id, std::move(pending));
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
    const auto owned = [this, owner](ClosureId id) {
      const auto it = closures_.find(id);
      return it != closures_.end() && it->second.spec.owner == owner;
    };
    for (ClosureId id : dispatcher_.CancelQueued(owned)) {
      Resolve(id, CancelledClosure(absl::StrCat("closure ", id, " was cancelled")));
    }
    std::map<int, proto::ControlRequest> requests;  // by worker
    for (const auto& [id, worker] : dispatcher_.Running()) {
      if (owned(id) && !dispatcher_.runs_again(id)) {
        requests[worker].mutable_cancel_closures()->add_closures(id);
        closures_.at(id).cancelled = true;
      }
    }
    for (auto& [worker, request] : requests) {
      workers_[worker]->Request(std::move(request), {}, [](auto) {});  // the closures' replies tell
    }
  });
}

void Controller::DropCancelled() {
  const auto cancelled = [this](ClosureId id) {
    const auto it = closures_.find(id);
    return it != closures_.end() && it->second.cancelled;
  };
  for (ClosureId id : dispatcher_.CancelQueued(cancelled)) {
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
  for (const Dispatcher::Assignment& a : dispatcher_.TakeAssignments(now)) {
    PendingClosure& pending = closures_.at(a.closure);
    pending.worker = a.worker;
    const ClosureSpec& spec = pending.spec;
    ClosureRequest request;
    request.epoch = epoch_;
    request.closure = a.closure;
    request.plan = spec.plan;
    request.attempt = a.attempt;
    request.seed = spec.seed;
    request.dataset = spec.dataset;
    request.ticket = spec.ticket;
    request.steps = spec.steps;
    request.first_step = pending.first_step;
    request.generation = generation_;
    request.arguments = spec.arguments;
    if (trace_.enabled()) pending.sent = trace_.Now();
    workers_[a.worker]->Send(Encode(std::move(request)));
  }
  DispatchAt(dispatcher_.next_time());
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

// The closure is over. With updates it is kept for a while: a PS that is lost may need it again.
void Controller::Resolve(ClosureId id, absl::StatusOr<std::vector<Tensor>> results) {
  const auto it = closures_.find(id);
  if (it == closures_.end()) return;
  PendingClosure pending = std::move(it->second);
  closures_.erase(it);
  Trace(SpanKind::kAttempt, id, &pending.sent, pending.worker);
  Trace(SpanKind::kScheduled, id, &pending.scheduled);
  if (results.ok() && Updates(pending.spec)) {
    if (pending.done) steps_ += pending.spec.steps;
    log_.Add(id, {std::move(pending.spec), pending.after});
  }
  if (pending.done) {
    pending.done(std::move(results));
  } else if (!results.ok()) {
    FailAll(Annotate(results.status(), "run again after a parameter server was lost"));
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
  const auto pending = closures_.find(reply.closure);
  // A worker whose lease ran out gives up what it has, before this end notices.
  const bool given_up = detail && detail->cause == ErrorCause::kCancelled &&
                        pending != closures_.end() && !pending->second.cancelled;
  if ((IsLost(reply.status) || given_up) && dispatcher_.IsCurrent(reply.closure, reply.attempt)) {
    // Not the closure's fault. Either its PS is lost, which will be known soon, or this worker's
    // way there: then it is set up again, which works once the way is there.
    if (!recovery_.running()) {
      dispatcher_.Retry(reply.closure, reply.attempt);
      DropCancelled();
    } else {
      refusals_[workers_[worker]->name()] = Annotate(reply.status, workers_[worker]->name());
      TakeOut(worker, /*blame=*/false);
      RetrySetUp(worker, absl::ZeroDuration());
      Dispatch();
    }
    return;
  }
  if (!dispatcher_.Complete(reply.closure, reply.attempt, false)) return;
  absl::Status status =
      Annotate(reply.status, pending == closures_.end()
                                 ? absl::StrCat("closure ", reply.closure)
                                 : DescribeClosure(reply.closure, pending->second.spec));
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
    stats.closures = dispatcher_.stats();
    stats.failures = failures_;
    stats.failures.closures_rerun = static_cast<int64_t>(stats.closures.rerun);
    if (checkpointer_ != nullptr) stats.checkpoints = checkpointer_->stats();
    stats.checkpoints.shards_moved = moves_.shards;
    stats.checkpoints.move_seconds = moves_.seconds;
    stats.open = dispatcher_.queued() + dispatcher_.running();
    stats.workers_ready = dispatcher_.workers();
    stats.workers = static_cast<int>(workers_.size());
    stats.waiting_for = WaitingFor();
    done(std::move(stats));
  });
}

}  // namespace coxswain
