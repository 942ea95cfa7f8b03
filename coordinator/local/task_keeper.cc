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
    absl::Duration until;
    {
      absl::MutexLock lock(&mu_);
      if (ending_) break;
      until = Tend(Now());
    }
    Wait(until);
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
  absl::MutexLock lock(&mu_);
  tasks_ = std::move(tasks);
  return absl::OkStatus();
}

std::vector<std::string> TaskKeeper::Addresses() const {
  absl::MutexLock lock(&mu_);
  std::vector<std::string> addresses;
  for (const Task& task : tasks_) addresses.push_back(task.process.address());
  return addresses;
}

std::map<std::string, Incarnation> TaskKeeper::Incarnations() const {
  absl::MutexLock lock(&mu_);
  std::map<std::string, Incarnation> incarnations;
  for (const Task& task : tasks_) incarnations[task.process.address()] = task.process.incarnation();
  return incarnations;
}

void TaskKeeper::Watch(LocalTaskEvents events) {
  {
    absl::MutexLock lock(&mu_);
    events_ = std::move(events);
    watching_ = true;
  }
  Wake();
}

void TaskKeeper::StopWatching() {
  absl::MutexLock lock(&mu_);
  watching_ = false;
  events_ = {};
}

absl::Duration TaskKeeper::Tend(absl::Duration now) {
  absl::Duration until = absl::InfiniteDuration();
  if (!watching_) return until;
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
    events_.on_ended(name, absl::StrCat(how, "; it is started again",
                                        *delay == absl::ZeroDuration()
                                            ? ""
                                            : absl::StrCat(" in ", absl::FormatDuration(*delay))));
    return;
  }
  task->given_up = true;
  const std::string often = policy_.most == 0
                                ? "; it is not started again"
                                : absl::StrCat("; it is not started again, after ", policy_.most,
                                               " times in quick succession");
  events_.on_ended(name, absl::StrCat(how, often));
  if (!AllGivenUp(task->ps)) return;
  const char* kind = task->ps ? "parameter server" : "worker";
  events_.on_hopeless(
      WithDetail(absl::UnavailableError(
                     absl::StrCat("no ", kind, " is left; the last one, ", name, ", ", how, often)),
                 {ErrorCause::kTaskLost, false, name, task->process.incarnation()}));
}

void TaskKeeper::Restart(Task* task, absl::Duration now) {
  events_.on_incarnation(task->process.address(), task->process.next_incarnation());
  const absl::Status status = task->process.Restart();
  task->up = status.ok();
  if (!status.ok()) OnEnd(task, absl::StrCat("is not back: ", status.message()), now);
}

bool TaskKeeper::AllGivenUp(bool ps) const {
  return std::all_of(tasks_.begin(), tasks_.end(),
                     [ps](const Task& task) { return task.ps != ps || task.given_up; });
}

void TaskKeeper::Wait(absl::Duration until) {
  std::vector<pollfd> fds = {{wake_.get(), POLLIN, 0}};
  {
    absl::MutexLock lock(&mu_);
    for (const Task& task : tasks_) {
      if (watching_ && task.up) fds.push_back({task.process.child().end_fd(), POLLIN, 0});
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
  std::vector<Task> tasks;
  {
    absl::MutexLock lock(&mu_);
    tasks = std::move(tasks_);
    tasks_.clear();
  }
  for (Task& task : tasks) task.process.child().Signal(SIGTERM);
  const absl::Duration deadline = Now() + kTermTimeout;
  // Those that are late are killed by their destructor.
  for (Task& task : tasks) task.process.child().WaitFor(deadline - Now());
}

}  // namespace coxswain::local
