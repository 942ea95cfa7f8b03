// The controller runs closures: sends them to workers, and passes on their results.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/controller.h"
#include "coxswain/status.h"
#include "runtime/base/status.h"

namespace coxswain::core {
namespace {

const char* Words(Effect effect) {
  switch (effect) {
    case Effect::kNothing:
      return "it has changed nothing";
    case Effect::kUnknown:
      return "it is not known whether its updates are applied";
  }
  return "";
}

}  // namespace

void Controller::Schedule(ClosureSpec spec, ResultFn done, ClosureNumber number) {
  loop_.Post(
      [this, spec = std::move(spec), done = std::move(done), number = std::move(number)]() mutable {
        if (!life_.failed().ok()) {
          done(life_.failed());
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
        if (number != nullptr) number->store(*id);
        if (trace_.enabled()) closure->scheduled = trace_.Now();
        HoldFirstStep();  // it may be of one of the checkpoint's
        SetExpiryAlarm();
        // What was written to shards by hand is in no checkpoint yet; a lost PS would take it
        // along.
        if (recovery_.running() && checkpoints_.DueByWrites()) Checkpoint(nullptr);
        Dispatch();
      });
}

void Controller::CancelClosures(uint64_t owner) {
  loop_.Post([this, owner] {
    for (ClosureId id : closures_.CancelQueued(owner)) Resolve(id, EndedEarly(id));
    const auto running = closures_.CancelRunning(owner);
    for (const auto& [worker, closures] : running) AskToCancel(worker, closures);
    Dispatch();  // others may have waited for these
  });
}

void Controller::CancelClosure(ClosureNumber number) {
  loop_.Post([this, number = std::move(number)] {
    const ClosureId id = number->load();
    if (closures_.Find(id) == nullptr) return;
    EndEarly(id, /*expired=*/false);
    Dispatch();
  });
}

void Controller::Call(std::function<void()> call) { loop_.Post(std::move(call)); }

Controller::TimerId Controller::CallAfter(absl::Duration delay, std::function<void()> call) {
  return loop_.PostAfter(delay, std::move(call));
}

void Controller::EndEarly(ClosureId id, bool expired) {
  loop_.AssertOnLoop();
  const ClosureTable::Cancellation ends = closures_.Cancel(id);
  if (ends.worker) {
    closures_.Find(id)->expired = expired;
    AskToCancel(*ends.worker, {id});
  }
  for (const ClosureId over : ends.over) {
    if (ClosureTable::Closure* const closure = closures_.Find(over)) closure->expired = expired;
    Resolve(over, EndedEarly(over));
  }
}

absl::Status Controller::EndedEarly(ClosureId id) {
  const ClosureTable::Closure* const closure = closures_.Find(id);
  const bool expired = closure != nullptr && closure->expired;
  const Effect effect = closure == nullptr ? Effect::kUnknown : closures_.EffectOf(*closure);
  const std::string message =
      absl::StrCat(closures_.Describe(id),
                   expired ? " was not over by its deadline; " : " was cancelled; ", Words(effect));
  absl::Status status =
      expired ? absl::DeadlineExceededError(message) : absl::CancelledError(message);
  return WithEffect(WithDetail(std::move(status), {ErrorCause::kCancelled, false, "", 0}), effect);
}

void Controller::DropCancelled() {
  for (ClosureId id : closures_.TakeCancelled()) Resolve(id, EndedEarly(id));
}

void Controller::Dispatch() {
  loop_.AssertOnLoop();
  if (!recovery_.running()) return;
  const absl::Duration now = env_->Monotonic();
  GiveUpQuarantined(now);
  if (recovery_.moving()) {
    CheckDrained();
    return;
  }
  std::vector<std::pair<Dispatcher::Assignment, absl::Status>> refused;
  for (const Dispatcher::Assignment& a : closures_.TakeAssignments(now)) {
    function::ClosureRequest request = closures_.RequestFor(a);
    request.session = hold_.id();
    request.generation = layout_.generation();
    net::Message message = function::Encode(std::move(request));
    const size_t bytes = message.wire_bytes(),
                 most = tasks_.workers()[a.worker]->max_message_bytes();
    if (bytes > most) {
      refused.push_back({a, function::TooLargeToSend("what is passed to the function", bytes, most,
                                                     tasks_.workers()[a.worker]->name(), 0)});
      continue;
    }
    closures_.Sent(a.closure, now);
    if (trace_.enabled()) closures_.Find(a.closure)->sent = trace_.Now();
    tasks_.workers()[a.worker]->Send(std::move(message));
  }
  loop_.SetAlarm(closures_.next_time(), env_->Monotonic(), [this] { Dispatch(); });
  for (const auto& [a, status] : refused) {
    if (closures_.Refused(a)) Resolve(a.closure, Annotate(status, closures_.Describe(a.closure)));
  }
  // There is room again. Posted, because direct calls would recurse as deeply as the queue is long.
  if (!refused.empty()) loop_.PostAfter(absl::ZeroDuration(), [this] { Dispatch(); });
}

void Controller::Resolve(ClosureId id, absl::StatusOr<std::vector<Tensor>> results) {
  loop_.AssertOnLoop();
  std::optional<ClosureTable::Closure> closure = closures_.End(id, results.status());
  if (!closure) return;
  Trace(trace::SpanKind::kAttempt, id, &closure->sent, closure->worker);
  Trace(trace::SpanKind::kScheduled, id, &closure->scheduled);
  const bool breaks_step = closure->spec.sync && !results.ok() && !closure->expired &&
                           !absl::IsCancelled(results.status());
  const absl::Status error = results.status();
  if (closure->done) {
    closure->done(std::move(results));
  } else {
    if (!results.ok()) {
      FailAll(Annotate(results.status(), "run again after a parameter server was lost"));
    }
    if (closures_.rerun_open() <= 0) {
      ReleaseWrites();
      Unpark();
    }
  }
  if (breaks_step && life_.failed().ok()) {
    const auto detail = GetDetail(error);
    absl::Status broken = Annotate(error, "a synchronous step cannot be completed");
    FailAll(detail ? WithDetail(std::move(broken), *detail) : broken);
  }
  ForgetUnusedPlans(closures_.TakeUnused());
  CheckpointBySteps();
  if (closures_.empty()) {
    for (DoneFn& done : closures_.TakeAwaiting()) AwaitSettled(std::move(done));
  }
}

void Controller::Trace(trace::SpanKind kind, ClosureId closure, absl::Duration* since, int lane) {
  if (*since == absl::ZeroDuration()) return;
  trace_.Record(kind, *since, trace_.Now(), closure, 0, static_cast<uint32_t>(lane));
  *since = absl::ZeroDuration();
}

void Controller::AwaitSettled(DoneFn done) {
  loop_.Post([this, done = std::move(done)]() mutable {
    if (!life_.failed().ok()) {
      done(life_.failed());
    } else if (phase() != Phase::kRunning) {
      parked_.push_back(
          [this, done = std::move(done)]() mutable { AwaitSettled(std::move(done)); });
    } else if (!closures_.empty()) {
      closures_.AwaitEmpty(std::move(done));
    } else {
      done(absl::OkStatus());
    }
  });
}

void Controller::OnClosureDone(int worker, function::ClosureReply reply, absl::Duration now) {
  const ClosureTable::Closure* const closure = closures_.Find(reply.closure);
  if (closure == nullptr || !closure->spec.sync) {
    if (!closures_.Done(reply.closure, reply.attempt, reply.steps_done, now)) return;
    worker_table_.Completed(worker);
    // The worker gets its next closure before the program gets this one's result.
    Dispatch();
    Resolve(reply.closure, std::move(reply.results));
    return;
  }
  auto over = closures_.DoneInStep(reply.closure, reply.attempt, std::move(reply.results), now);
  if (!over) return;
  worker_table_.Completed(worker);
  Dispatch();
  for (SyncTable::Done& done : *over) Resolve(done.closure, std::move(done.results));
  TellChosen();
  CheckStepsOver();
}

void Controller::OnClosureFailed(int worker, function::ClosureReply reply) {
  const auto detail = GetDetail(reply.status);
  const bool cancelled = detail && detail->cause == ErrorCause::kCancelled;
  // A worker gives up its closures when its session ends, before this end notices.
  const ClosureTable::Closure* closure = closures_.Find(reply.closure);
  const bool given_up = cancelled && closure != nullptr && !closure->cancelled;
  if ((IsLost(reply.status) || given_up) && closures_.IsCurrent(reply.closure, reply.attempt)) {
    // Not the closure's fault. Either the PS is lost, which will be known soon, or this worker's
    // connection to it: then the worker is set up again, which succeeds once it can reach the PS.
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
  if (cancelled) {
    status = EndedEarly(reply.closure);
    ClosureTable::Closure* const ended = closures_.Find(reply.closure);
    if (ended != nullptr) ended->first_step = std::max(ended->first_step, reply.steps_done);
  }
  Dispatch();
  Resolve(reply.closure, std::move(status));
}

}  // namespace coxswain::core
