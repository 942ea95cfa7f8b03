// The controller connects to the tasks, and takes the cluster: one session at a time has it.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "coordinator/core/controller.h"
#include "coordinator/core/task_reasons.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"

namespace coxswain {

void Controller::Start(DoneFn done) {
  loop_->Post([this, done = std::move(done)]() mutable {
    life_.Begin(std::move(done), env_->Monotonic());
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
    if (life_.ending()) return;
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
  // A live coordinator holds the cluster: its lease has been given time to run out.
  if (life_.starting() && cause == ErrorCause::kClusterHeld &&
      life_.starting_for(env_->Monotonic()) > options_.lease + absl::Seconds(1)) {
    FinishStart(refusal);
  }
}

void Controller::CheckStarted(bool timed_out) {
  if (!life_.starting()) return;
  const int ready = closures_.workers();
  const bool waited = life_.starting_for(env_->Monotonic()) >= options_.straggler_timeout;
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
          (is_ps ? layout_.absent(session->task()) : worker_table_.ready(session->task()));
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
  const DoneFn done = life_.EndStart(status);
  if (life_.started()) Watch();
  done(std::move(status));
}

}  // namespace coxswain
