// The controller runs synchronous steps, and writes checkpoints between two of them: what is held
// of a step is in no snapshot, and shards that have applied a step must not be saved beside others
// that have not. So no step begins from when a checkpoint is due until it is written. That waits
// for the step under way and the next two, as far as they are with the workers already, and for
// nothing else. Until a program has scheduled its first step, checkpoints hold nothing back; one
// that is being written then holds that step.

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/controller.h"
#include "coordinator/core/gather.h"
#include "coxswain/cluster.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"

namespace coxswain::core {

static_assert(Consistency::kMostReplicas == kMostReplicas);

void Controller::ScheduleStep(std::vector<ClosureSpec> step, const SyncStep& kind,
                              std::vector<ResultFn> done, std::vector<ClosureNumber> numbers) {
  loop_.Post([this, step = std::move(step), kind, done = std::move(done),
              numbers = std::move(numbers)]() mutable {
    absl::Status status = life_.failed();
    if (step.size() <= kind.backup || step.size() - kind.backup > kMostReplicas ||
        step.size() != done.size() || (kind.free && kind.backup > 0)) {
      status.Update(absl::InvalidArgumentError(
          absl::StrCat("a synchronous step has 1 to ", kMostReplicas, " closures, found ",
                       step.size(), ", of which ", kind.backup, " are backups")));
    }
    const bool updates = status.ok() && plans_.Updates(step[0].plan);
    for (const ClosureSpec& spec : step) {
      if (spec.plan != step[0].plan || spec.resumed != 0 || (updates && spec.steps != 1)) {
        status.Update(absl::InvalidArgumentError(
            "the closures of a synchronous step are of one function, of one training step each"));
      }
    }
    if (updates && options_.recovery.on_ps_loss != PsLossPolicy::kRollback) {
      status.Update(absl::FailedPreconditionError(
          "synchronous steps want all shards to go back together when a parameter server is lost "
          "(on_ps_loss: rollback)"));
    }
    if (!status.ok()) {
      for (ResultFn& fn : done) fn(status);
      return;
    }
    for (ClosureSpec& spec : step) spec.sync = kind;
    if (updates) closures_.NumberStep(&step);
    for (size_t i = 0; i < step.size(); ++i) {
      const absl::StatusOr<ClosureId> id = closures_.Schedule(std::move(step[i]), updates);
      if (!id.ok()) {  // closures of a checkpoint are missing: none of the step is queued
        for (; i < done.size(); ++i) done[i](id.status());
        return;
      }
      ClosureTable::Closure* closure = closures_.Find(*id);
      closure->done = std::move(done[i]);
      if (i < numbers.size()) numbers[i]->store(*id);
      if (trace_.enabled()) closure->scheduled = trace_.Now();
    }
    HoldFirstStep();
    SetExpiryAlarm();
    if (recovery_.running() && checkpoints_.DueByWrites()) Checkpoint(nullptr);
    Dispatch();
  });
}

void Controller::TellChosen() {
  // Where a PS is away, what is chosen now might be lost on its way there.
  while (recovery_.running() && life_.failed().ok()) {
    const std::optional<ClosureTable::Choice> choice = closures_.ChooseInStep();
    if (!choice) return;
    const SyncStep& step = choice->step;
    proto::ControlRequest request;
    proto::ApplyStep* const apply = request.mutable_apply_step();
    apply->set_generation(layout_.generation());
    apply->set_first(step.first.number());
    apply->set_count(step.count);
    apply->set_backup(step.backup);
    apply->set_mean(step.mean);
    apply->set_each(step.each);
    for (const ClosureId id : choice->chosen) apply->add_closures(id.number());
    auto gather = NewStatusGather(
        [this, first = step.first, generation = layout_.generation()](const absl::Status& status) {
          OnStepApplied(first, generation, status);
        });
    for (const auto& ps : tasks_.ps()) {
      // Nobody needs one without shards, and its loss would be no recovery.
      if (layout_.shards().On(ps->task()).empty()) continue;
      SendToPs(ps->task(), request, {}, gather->Add<TaskSession::Response>());
    }
    gather->Finish();
    for (const auto& [worker, closures] : choice->to_cancel) AskToCancel(worker, closures);
    for (const ClosureId id : choice->surplus) {
      Resolve(id, WithDetail(absl::CancelledError(absl::StrCat(
                                 closures_.Describe(id), ": its synchronous step did without it")),
                             {ErrorCause::kSurplus, true, "", 0}));
    }
    Dispatch();
  }
}

void Controller::OnStepApplied(ClosureId first, Generation generation, const absl::Status& status) {
  if (!life_.failed().ok() || generation != layout_.generation()) return;
  if (!status.ok()) {
    const auto detail = GetDetail(status);
    // A PS that does not answer is recovered, and then the step begins anew.
    const bool again = IsLost(status) || (detail && detail->cause == ErrorCause::kCancelled);
    if (!again) FailAll(Annotate(status, "a synchronous step cannot be applied"));
    return;
  }
  std::vector<SyncTable::Done> over = closures_.StepApplied(first, env_->Monotonic());
  Dispatch();
  for (SyncTable::Done& done : over) Resolve(done.closure, std::move(done.results));
  CheckStepsOver();
}

void Controller::PauseSteps(StepPause::DoneFn done) {
  if (step_pause_.Want(std::move(done))) closures_.StopSteps();
  CheckStepsOver();
}

void Controller::HoldFirstStep() {
  loop_.AssertOnLoop();
  if (step_pause_.on() || !closures_.steps_open().used()) return;
  Checkpointer* const writer = checkpoints_.writer();
  if (writer == nullptr || !writer->busy()) return;
  step_pause_.Want(nullptr);
  closures_.StopSteps();
  const std::optional<StepPause::Turn> turn = step_pause_.Write();
  LimitTurn(turn->number);
  writer->AwaitIdle(
      [this, number = turn->number](const Checkpointer::Outcome&) { TurnOver(number); });
}

void Controller::CheckStepsOver() {
  if (!step_pause_.on() || !closures_.steps_open().none_begun()) return;
  std::optional<StepPause::Turn> turn = step_pause_.Write();
  if (!turn) return;
  LimitTurn(turn->number);
  WriteCheckpoint(
      [this, turn = *std::move(turn)](const absl::StatusOr<checkpoint::Manifest>& manifest) {
        for (const auto& done : turn.waiting) {
          if (done) done(manifest);
        }
        TurnOver(turn.number);
      });
}

// A disk that hangs must not stop the training.
void Controller::LimitTurn(uint64_t number) {
  loop_.PostAfter(options_.recovery.cluster_timeout, [this, number] {
    if (!step_pause_.IsWriting(number)) return;
    checkpoints_.Abort(absl::DeadlineExceededError(
        absl::StrCat("it took more than ", absl::FormatDuration(options_.recovery.cluster_timeout),
                     ", in which no synchronous step could begin")));
  });
}

// Posts what follows: the checkpointer, which calls this, is not through with its checkpoint.
void Controller::TurnOver(uint64_t number) {
  switch (step_pause_.Over(number)) {
    case StepPause::Next::kNothing:
      break;
    case StepPause::Next::kStepsGoOn:
      closures_.ResumeSteps();
      loop_.PostAfter(absl::ZeroDuration(), [this] { Dispatch(); });
      break;
    case StepPause::Next::kAnother:
      loop_.PostAfter(absl::ZeroDuration(), [this] { CheckStepsOver(); });
  }
}

void Controller::EndStepPause(const absl::Status& why) {
  const auto waiting = step_pause_.End();
  if (!waiting) return;
  closures_.ResumeSteps();
  for (const auto& done : *waiting) {
    if (done) done(why);
  }
}

}  // namespace coxswain::core
