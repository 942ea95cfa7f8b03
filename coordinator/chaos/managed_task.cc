#include "coordinator/chaos/managed_task.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
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

namespace coxswain {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(20);
constexpr absl::Duration kPollInterval = absl::Milliseconds(5);
constexpr int kPortAttempts = 5;

// A loopback port, and the socket that is bound to it. Nobody is given a port that is bound, but
// who binds with SO_REUSEADDR, as gRPC does, may have it beside a socket that does not listen.
absl::StatusOr<std::pair<OwnedFd, int>> ReservePort() {
  OwnedFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  const int on = 1;
  // Bound without the option first: it must be free.
  if (fd.get() < 0 || bind(fd.get(), raw, size) != 0 || getsockname(fd.get(), raw, &size) != 0 ||
      setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0) {
    return absl::UnavailableError(absl::StrCat("no port for a daemon: ", std::strerror(errno)));
  }
  return std::pair(std::move(fd), static_cast<int>(ntohs(address.sin_port)));
}

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
// the daemon with us.
std::vector<std::string> AsRestarted(std::vector<std::string> command, const std::string& program,
                                     const std::string& address) {
  const std::string port = address.substr(address.rfind(':') + 1);
  std::vector<std::string> changed = {program};
  for (size_t i = 1; i < command.size(); ++i) {
    if (command[i] == "--exit-with-parent") continue;
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

OwnedFd::OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
OwnedFd& OwnedFd::operator=(OwnedFd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}
OwnedFd::~OwnedFd() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<ManagedTask> ManagedTask::Launch(const std::string& program, const std::string& job,
                                                int task, int threads, const std::string& log) {
  absl::Status last;
  for (int attempt = 0; attempt < kPortAttempts; ++attempt) {
    ManagedTask managed;
    managed.name_ = absl::StrCat(job, ":", task);
    ASSIGN_OR_RETURN(auto reserved, ReservePort());
    managed.port_ = std::move(reserved.first);
    managed.err_ = OwnedFd(open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (managed.err_.get() < 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot write '", log, "'"));
    }
    int out[2];
    if (pipe2(out, O_CLOEXEC) != 0) {
      return absl::InternalError(absl::StrCat("pipe: ", std::strerror(errno)));
    }
    const OwnedFd reading(out[0]);
    OwnedFd writing(out[1]);
    managed.options_.command = {program,
                                "--task",
                                absl::StrCat(task),
                                "--port",
                                absl::StrCat(reserved.second),
                                "--threads",
                                absl::StrCat(threads)};
    managed.options_.err = managed.err_.get();
    // Also a daemon that is stopped just then must not be left behind.
    managed.options_.death_signal = SIGKILL;
    ChildOptions first = managed.options_;
    first.out = writing.get();
    ASSIGN_OR_RETURN(managed.child_, Child::Start(first));
    writing = OwnedFd();
    auto address = ReadAddress(reading.get(), managed.name_, kStartTimeout);
    if (address.ok()) {
      managed.address_ = *address;
      managed.options_.out = managed.err_.get();
      return managed;
    }
    last = Annotate(address.status(), absl::StrCat("see ", log));
    if (!absl::IsUnavailable(last)) return last;
  }
  return last;
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
    OwnedFd file(open(absl::StrCat(root, "/fd/", fd).c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    return file.get() >= 0 ? std::move(file) : OwnedFd(open("/dev/null", O_WRONLY | O_CLOEXEC));
  };
  managed.out_ = reopen(STDOUT_FILENO);
  managed.err_ = reopen(STDERR_FILENO);
  managed.options_.out = managed.out_.get();
  managed.options_.err = managed.err_.get();
  return managed;
}

bool ManagedTask::running() {
  if (adopted_ > 0) return StartTime(adopted_) == adopted_start_;
  return child_.running();
}

void ManagedTask::Signal(int number) {
  if (!running()) return;
  if (adopted_ > 0) {
    kill(adopted_, number);
  } else {
    child_.Signal(number);
  }
}

absl::Status ManagedTask::Restart() {
  adopted_ = -1;
  ASSIGN_OR_RETURN(child_, Child::Start(options_));
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

}  // namespace coxswain
