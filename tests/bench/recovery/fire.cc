#include "tests/bench/recovery/fire.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(20);

absl::Status SystemError(const char* what) {
  return absl::InternalError(absl::StrCat(what, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<FireDaemons> FireDaemons::Start(int ps, int workers, int worker_threads,
                                               const std::string& directory) {
  FireDaemons daemons;
  const auto start = [&](const std::string& job, int task, int threads) -> absl::Status {
    Task t;
    t.command = {absl::StrCat(directory, "/coxswain-", job),
                 "--insecure",
                 "--root",
                 "/",
                 "--task",
                 absl::StrCat(task),
                 "--threads",
                 absl::StrCat(threads),
                 "--log-level",
                 "error"};
    ASSIGN_OR_RETURN(const std::string address, LaunchAnywhere(&t));
    t.port = address.substr(address.rfind(':') + 1);
    (job == "ps" ? daemons.config_.ps : daemons.config_.workers).push_back(address);
    (job == "ps" ? daemons.ps_ : daemons.workers_).push_back(std::move(t));
    return absl::OkStatus();
  };
  for (int p = 0; p < ps; ++p) RETURN_IF_ERROR(start("ps", p, 1));
  for (int w = 0; w < workers; ++w) RETURN_IF_ERROR(start("worker", w, worker_threads));
  return daemons;
}

absl::StatusOr<std::string> FireDaemons::LaunchAnywhere(Task* task) {
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) return SystemError("pipe");
  local::ChildOptions options;
  options.command = task->command;
  options.command.insert(options.command.end(), {"--port", "0"});
  options.out = out[1];
  options.death_signal = SIGKILL;
  auto child = local::Child::Start(options);
  close(out[1]);
  if (!child.ok()) {
    close(out[0]);
    return child.status();
  }
  task->child = *std::move(child);
  absl::StatusOr<std::string> address = local::ReadAddress(out[0], task->command[0], kStartTimeout);
  close(out[0]);  // it prints nothing else
  return address;
}

absl::Status FireDaemons::Kill(Task* task) {
  task->child.Signal(SIGKILL);
  if (task->child.WaitFor(kStartTimeout)) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(task->command[0], " does not die"));
}

absl::Status FireDaemons::Launch(Task* task) {
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null < 0) return SystemError("/dev/null");
  local::ChildOptions options;
  options.command = task->command;
  options.command.insert(options.command.end(), {"--port", task->port});
  options.out = null;
  options.death_signal = SIGKILL;
  auto child = local::Child::Start(options);
  close(null);
  RETURN_IF_ERROR(child.status());
  task->child = *std::move(child);
  return absl::OkStatus();
}

}  // namespace coxswain
