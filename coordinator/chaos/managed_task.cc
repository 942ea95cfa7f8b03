#include "coordinator/chaos/managed_task.h"

#include <fcntl.h>
#include <signal.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "runtime/base/status.h"

namespace coxswain::chaos {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(5);

std::string ProcFile(pid_t pid, const char* name) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/", name), std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

// Strings that end with a zero byte each.
std::vector<std::string> ZeroEnded(const std::string& text) {
  std::vector<std::string> parts = absl::StrSplit(text, '\0');
  if (!parts.empty() && parts.back().empty()) parts.pop_back();
  return parts;
}

// What tells this process from an earlier one of the same number; empty when it has ended.
std::string StartTime(pid_t pid) {
  const std::string stat = ProcFile(pid, "stat");
  const size_t name_end = stat.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return "";
  // state ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt utime stime cutime cstime
  // priority nice threads itrealvalue starttime
  const std::vector<std::string> fields =
      absl::StrSplit(stat.substr(name_end + 1), ' ', absl::SkipEmpty());
  constexpr size_t kState = 0, kStart = 19;
  if (fields.size() <= kStart || fields[kState] == "Z" || fields[kState] == "X") return "";
  return fields[kStart];
}

// The command with its port, where it had the system pick one, and without the flag that would end
// the daemon with us and the one that names its first life.
std::vector<std::string> AsRestarted(std::vector<std::string> command, const std::string& program,
                                     const std::string& address) {
  const std::string port = address.substr(address.rfind(':') + 1);
  std::vector<std::string> changed = {program};
  for (size_t i = 1; i < command.size(); ++i) {
    if (command[i] == "--exit-with-parent") continue;
    if (absl::StartsWith(command[i], "--incarnation=")) continue;
    if (command[i] == "--incarnation") {
      ++i;
      continue;
    }
    changed.push_back(command[i]);
    if (command[i] == "--port=0") changed.back() = absl::StrCat("--port=", port);
    if (command[i] == "--port" && i + 1 < command.size()) {
      ++i;
      changed.push_back(command[i] == "0" ? port : command[i]);
    }
  }
  return changed;
}

}  // namespace

absl::StatusOr<ManagedTask> ManagedTask::Launch(const std::string& directory,
                                                const std::string& job, int task, int threads,
                                                const std::string& log) {
  ManagedTask managed;
  managed.name_ = absl::StrCat(job, ":", task);
  managed.err_ = net::UniqueFd(open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!managed.err_.valid()) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write '", log, "'"));
  }
  local::DaemonLaunch launch;
  launch.directory = directory;
  launch.job = job;
  launch.task = task;
  launch.threads = threads;
  launch.err = managed.err_.get();
  ASSIGN_OR_RETURN(managed.own_, local::DaemonProcess::Begin(launch));
  if (absl::Status ready = managed.own_->AwaitReady(); !ready.ok()) {
    return Annotate(ready, absl::StrCat("see ", log));
  }
  managed.address_ = managed.own_->address();
  return managed;
}

absl::StatusOr<ManagedTask> ManagedTask::Adopt(const std::string& name, const std::string& address,
                                               pid_t pid) {
  ManagedTask managed;
  managed.name_ = name;
  managed.address_ = address;
  managed.adopted_ = pid;
  managed.adopted_start_ = StartTime(pid);
  const std::vector<std::string> command = ZeroEnded(ProcFile(pid, "cmdline"));
  if (managed.adopted_start_.empty() || command.empty()) {
    return absl::NotFoundError(
        absl::StrCat(name, " at ", address, ": there is no process ", pid, " on this machine"));
  }
  std::error_code error;
  const std::string root = absl::StrCat("/proc/", pid);
  const auto program = std::filesystem::read_symlink(root + "/exe", error);
  const auto directory =
      error ? std::filesystem::path() : std::filesystem::read_symlink(root + "/cwd", error);
  if (error || kill(pid, 0) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat(name, " at ", address, ": process ", pid,
                     " belongs to another user; run this as that one"));
  }
  managed.options_.command = AsRestarted(command, program.string(), address);
  managed.options_.environment = ZeroEnded(ProcFile(pid, "environ"));
  managed.options_.directory = directory.string();
  // A file is opened, so that both write at its end; what cannot be opened again is let go.
  const auto reopen = [&](int fd) {
    net::UniqueFd file(
        open(absl::StrCat(root, "/fd/", fd).c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    return file.valid() ? std::move(file) : net::UniqueFd(open("/dev/null", O_WRONLY | O_CLOEXEC));
  };
  managed.out_ = reopen(STDOUT_FILENO);
  managed.err_ = reopen(STDERR_FILENO);
  managed.options_.out = managed.out_.get();
  managed.options_.err = managed.err_.get();
  return managed;
}

bool ManagedTask::running() {
  if (adopted_ > 0) return StartTime(adopted_) == adopted_start_;
  return child().running();
}

void ManagedTask::Signal(int number) {
  if (!running()) return;
  if (adopted_ > 0) {
    kill(adopted_, number);
  } else {
    child().Signal(number);
  }
}

absl::Status ManagedTask::Restart() {
  if (own_) return own_->Restart();
  adopted_ = -1;
  ASSIGN_OR_RETURN(child_, local::Child::Start(options_));
  return absl::OkStatus();
}

bool ManagedTask::WaitFor(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (running()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(kPollInterval);
  }
  return true;
}

}  // namespace coxswain::chaos
