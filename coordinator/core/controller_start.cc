// The controller connects to the tasks and takes the cluster, which one session at a time can hold.

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/controller.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"

namespace coxswain::core {

void Controller::Start(DoneFn done) {
  loop_.Post([this, done = std::move(done)]() mutable {
    life_.Begin(std::move(done), env_->Monotonic());
    worker_table_.Resize(num_workers());
    tasks_.Connect(options_.ps, options_.workers);
    loop_.PostAfter(options_.straggler_timeout, [this] { CheckStarted(/*timed_out=*/false); });
    loop_.PostAfter(options_.connect_timeout, [this] { CheckStarted(/*timed_out=*/true); });
    loop_.PostAfter(LongWaits::kSayAfter, [this] { SayMissing(); });
  });
}

void Controller::SayMissing() {
  const absl::Duration left = options_.connect_timeout - life_.starting_for(env_->Monotonic());
  if (!life_.starting() || left <= absl::ZeroDuration()) return;
  Emit(ClusterEvent::Kind::kWaiting, "",
       absl::StrCat("waiting for the cluster: ", absl::StrJoin(MissingTasks(), "; "),
                    "; the job gives up after ", absl::FormatDuration(options_.connect_timeout)));
  loop_.PostAfter(LongWaits::kSayAgain, [this] { SayMissing(); });
}

TaskSession::Events Controller::EventsOf(const std::string& job, int task) {
  TaskSession::Events events;
  const bool is_ps = job == "ps";
  events.on_answered = [this, is_ps, task] {
    OnAnswered((is_ps ? tasks_.ps() : tasks_.workers())[static_cast<size_t>(task)].get());
  };
  events.on_up = [this, is_ps, task] { is_ps ? OnPsUp(task) : OnWorkerUp(task); };
  events.on_down = [this, is_ps, task](absl::Status s) {
    if (life_.ending()) return;
    is_ps ? OnPsDown(task, s) : OnWorkerDown(task, s);
  };
  events.on_refused = [this, is_ps, name = absl::StrCat("/job:", job, "/task:", task)](
                          const absl::Status& s) { OnRefused(is_ps, name, s); };
  events.on_data = [this, is_ps, task](net::Message m) {
    if (!is_ps) OnWorkerData(task, std::move(m));
  };
  events.low_water = [this] { return MarkToTell(); };
  events.on_ending = [this, is_ps, task] { OnTaskEnding(is_ps, task); };
  return events;
}

void Controller::OnAnswered(TaskSession* task) {
  loop_.AssertOnLoop();
  tasks_.NotRefused(task->name());
  if (hold_.taken()) {
    task->Claim(hold_.session());
  } else {
    ChooseSession();
  }
}

void Controller::ChooseSession() {
  TaskSession* const first = tasks_.first_ps();
  if (!first->answered()) return;  // or it is being claimed
  if (const auto highest = tasks_.HighestEpoch()) first->Claim(hold_.Choose(*highest));
}

void Controller::OnRefused(bool is_ps, const std::string& task, const absl::Status& refusal) {
  loop_.AssertOnLoop();
  const bool news = tasks_.Refused(task, refusal);
  const auto detail = GetDetail(refusal);
  const ErrorCause cause = detail ? detail->cause : ErrorCause::kUnknown;
  // That another coordinator holds it may change by itself, and does not if it runs another version
  // or wants another secret.
  const bool stays = cause == ErrorCause::kUnknown || cause == ErrorCause::kConfiguration;
  if (life_.started() && !life_.ending() && news && stays) {
    Emit(ClusterEvent::Kind::kWaiting, task,
         absl::StrCat("is there again, but is not used: ", refusal.message()));
  }
  // A PS that was held is now held by another coordinator, or was meanwhile. A worker may come back
  // after that.
  if (cause == ErrorCause::kStaleEpoch && is_ps) {
    const absl::Status lost =
        Annotate(refusal, "another coordinator has taken over the cluster, this one ends");
    if (life_.starting()) {
      FinishStart(WithDetail(lost, {ErrorCause::kClusterHeld, true, "", 0}));
    } else if (life_.started() && life_.failed().ok()) {
      FailAll(lost);
    }
  }
  if (life_.starting() && cause == ErrorCause::kConfiguration) {
    FinishStart(refusal);
    return;
  }
  // A live coordinator holds the cluster: its lease had time to run out.
  if (life_.starting() && cause == ErrorCause::kClusterHeld &&
      life_.starting_for(env_->Monotonic()) > options_.lease + absl::Seconds(1)) {
    FinishStart(refusal);
  }
}

void Controller::CheckStarted(bool timed_out) {
  if (!life_.starting()) return;
  const int ready = closures_.workers();
  const bool waited = life_.starting_for(env_->Monotonic()) >= options_.straggler_timeout;
  if (AllPsUp() && (ready == num_workers() || (ready > 0 && (waited || timed_out)))) {
    for (const std::string& missing : MissingTasks()) LogWarning("starting without ", missing);
    FinishStart(absl::OkStatus());
  } else if (timed_out) {
    FinishStart(Unreachable());
  }
}

std::vector<std::string> Controller::MissingTasks() const {
  return tasks_.Missing([this](const TaskSession& task) {
    const bool is_ps = task.job() == "ps";
    // Tasks that have answered are not claimed before all PS have answered; workers are set up
    // after that.
    return task.answered() || (task.up() && (is_ps || !AllPsUp())) ||
           (is_ps ? layout_.absent(task.task()) : worker_table_.ready(task.task()));
  });
}

absl::Status Controller::Unreachable() const {
  return WithDetail(
      absl::UnavailableError(absl::StrCat("the cluster could not be reached within ",
                                          absl::FormatDuration(options_.connect_timeout), ": ",
                                          absl::StrJoin(MissingTasks(), "; "))),
      {ErrorCause::kUnreachable, true, "", 0});
}

void Controller::FinishStart(absl::Status status) {
  loop_.AssertOnLoop();
  const DoneFn done = life_.EndStart(status);
  if (life_.started()) Watch();
  done(std::move(status));
}

}  // namespace coxswain::core
