#include "coordinator/local/task_keeper.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain::local {
namespace {

constexpr absl::Duration kTermTimeout = absl::Seconds(5);
// Where the system has no descriptor that tells a child's end.
constexpr absl::Duration kLook = absl::Milliseconds(100);

absl::Duration Now() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

TaskKeeper::~TaskKeeper() {
  StopWatching();
  {
    absl::MutexLock lock(&mu_);
    ending_ = true;
  }
  Wake();
  if (thread_.joinable()) thread_.join();
}

absl::Status TaskKeeper::Start(std::vector<DaemonLaunch> launches) {
  wake_ = net::UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.valid()) return absl::ErrnoToStatus(errno, "cannot make an event descriptor");
  absl::Status status;
  thread_ =
      std::thread([this, launches = std::move(launches), &status] { Run(launches, &status); });
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(&started_));
  return status;
}

void TaskKeeper::Run(const std::vector<DaemonLaunch>& launches, absl::Status* started) {
  absl::Status status = StartAll(launches);
  {
    absl::MutexLock lock(&mu_);
    *started = std::move(status);  // gone once the caller has seen `started_`
    started_ = true;
  }
  while (true) {
    {
      absl::MutexLock lock(&mu_);
      if (ending_) break;
    }
    Wait(Tend(Now()));
  }
  EndAll();
}

// All begin before the first is waited for: they come up at the same time.
absl::Status TaskKeeper::StartAll(const std::vector<DaemonLaunch>& launches) {
  std::vector<Task> tasks;
  for (const DaemonLaunch& launch : launches) {
    ASSIGN_OR_RETURN(DaemonProcess process, DaemonProcess::Begin(launch));
    tasks.push_back({std::move(process), launch.job == "ps", RestartBudget(policy_)});
  }
  for (Task& task : tasks) RETURN_IF_ERROR(task.process.AwaitReady());
  tasks_ = std::move(tasks);
  Publish();
  return absl::OkStatus();
}

void TaskKeeper::Publish() {
  absl::MutexLock lock(&mu_);
  addresses_.clear();
  for (const Task& task : tasks_) {
    addresses_.push_back(task.process.address());
    incarnations_[task.process.address()] = task.process.incarnation();
  }
}

std::vector<std::string> TaskKeeper::Addresses() const {
  absl::MutexLock lock(&mu_);
  return addresses_;
}

std::map<std::string, Incarnation> TaskKeeper::Incarnations() const {
  absl::MutexLock lock(&mu_);
  return incarnations_;
}

void TaskKeeper::Watch(LocalTaskEvents events) {
  watch_.Begin(std::move(events));
  Wake();
}

void TaskKeeper::StopWatching() { watch_.End(); }

absl::Duration TaskKeeper::Tend(absl::Duration now) {
  absl::Duration until = absl::InfiniteDuration();
  if (!watch_.watched()) return until;
  for (Task& task : tasks_) {
    if (task.up && !task.process.child().running()) {
      task.up = false;
      OnEnd(&task, HowEnded(task.process.child().Poll()), now);
    }
    if (!task.up && !task.given_up && now >= task.restart_at) Restart(&task, now);
    if (task.up && task.process.child().end_fd() < 0) until = std::min(until, now + kLook);
    if (!task.up && !task.given_up) until = std::min(until, task.restart_at);
  }
  return until;
}

void TaskKeeper::OnEnd(Task* task, const std::string& how, absl::Duration now) {
  const std::string name = task->process.name();
  if (const auto delay = task->budget.Spend(now)) {
    task->restart_at = now + *delay;
    const std::string in =
        *delay == absl::ZeroDuration() ? "" : absl::StrCat(" in ", absl::FormatDuration(*delay));
    watch_.Do([&](const LocalTaskEvents& events) {
      events.on_ended(name, absl::StrCat(how, "; it is started again", in));
    });
    return;
  }
  task->given_up = true;
  const std::string often = policy_.most == 0
                                ? "; it is not started again"
                                : absl::StrCat("; it is not started again, after ", policy_.most,
                                               " times in quick succession");
  watch_.Do([&](const LocalTaskEvents& events) {
    events.on_ended(name, absl::StrCat(how, often));
    if (!AllGivenUp(task->ps)) return;
    const char* kind = task->ps ? "parameter server" : "worker";
    events.on_hopeless(
        WithDetail(absl::UnavailableError(absl::StrCat("no ", kind, " is left; the last one, ",
                                                       name, ", ", how, often)),
                   {ErrorCause::kTaskLost, false, name, task->process.incarnation()}));
  });
}

void TaskKeeper::Restart(Task* task, absl::Duration now) {
  absl::Status status;
  watch_.Do([&](const LocalTaskEvents& events) {
    events.on_incarnation(task->process.address(), task->process.next_incarnation());
    status = task->process.Restart();
    task->up = status.ok();
    Publish();
  });
  if (!status.ok()) OnEnd(task, absl::StrCat("is not back: ", status.message()), now);
}

bool TaskKeeper::AllGivenUp(bool ps) const {
  return std::all_of(tasks_.begin(), tasks_.end(),
                     [ps](const Task& task) { return task.ps != ps || task.given_up; });
}

void TaskKeeper::Wait(absl::Duration until) {
  std::vector<pollfd> fds = {{wake_.get(), POLLIN, 0}};
  if (watch_.watched()) {
    for (const Task& task : tasks_) {
      if (task.up) fds.push_back({task.process.child().end_fd(), POLLIN, 0});
    }
  }
  timespec left = absl::ToTimespec(std::max(absl::ZeroDuration(), until - Now()));
  ppoll(fds.data(), fds.size(), until == absl::InfiniteDuration() ? nullptr : &left, nullptr);
  uint64_t count;
  [[maybe_unused]] const ssize_t got = read(wake_.get(), &count, sizeof(count));
}

void TaskKeeper::Wake() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

void TaskKeeper::EndAll() {
  for (Task& task : tasks_) task.process.child().Signal(SIGTERM);
  const absl::Duration deadline = Now() + kTermTimeout;
  for (Task& task : tasks_) task.process.child().WaitFor(deadline - Now());
  tasks_.clear();  // kills those that are late
}

}  // namespace coxswain::local
