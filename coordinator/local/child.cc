#include "coordinator/local/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

namespace coxswain::local {
namespace {

constexpr char kListening[] = "listening on ";
constexpr absl::Duration kPollInterval = absl::Milliseconds(5);
constexpr int kSignalled = 128;

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Everything that the child needs, made before the fork: between it and exec only calls are allowed
// that take no lock.
struct Prepared {
  std::vector<char*> argv, envp;
  const char* directory;
  int out, err, inherits, death_signal;
  pid_t parent;
  int failed;  // the writing end of a pipe that exec closes
};

[[noreturn]] void RunChild(const Prepared& p) {
  // posix_spawn could do all of this but the death signal.
  sigset_t none;
  sigemptyset(&none);
  const int null = open("/dev/null", O_RDONLY);
  const bool ready = null >= 0 && setpgid(0, 0) == 0 && dup2(null, STDIN_FILENO) >= 0 &&
                     (p.out < 0 || dup2(p.out, STDOUT_FILENO) >= 0) &&
                     (p.err < 0 || dup2(p.err, STDERR_FILENO) >= 0) &&
                     (p.inherits < 0 || fcntl(p.inherits, F_SETFD, 0) == 0) &&
                     (p.directory[0] == '\0' || chdir(p.directory) == 0) &&
                     sigprocmask(SIG_SETMASK, &none, nullptr) == 0 &&
                     (p.death_signal == 0 || prctl(PR_SET_PDEATHSIG, p.death_signal) == 0);
  if (ready) {
    if (p.death_signal != 0 && getppid() != p.parent) _exit(1);  // it is gone already
    execve(p.argv[0], p.argv.data(), p.envp.data());
  }
  const int error = errno;
  [[maybe_unused]] const ssize_t n = write(p.failed, &error, sizeof(error));
  _exit(127);
}

std::string Printed(const std::string& text) {
  return text.empty() ? "" : absl::StrCat("; it printed: ", text);
}

}  // namespace

absl::StatusOr<Child> Child::Start(const ChildOptions& options) {
  int failed[2];
  if (pipe2(failed, O_CLOEXEC) != 0) {
    return absl::InternalError(absl::StrCat("pipe: ", std::strerror(errno)));
  }
  Prepared p{Pointers(options.command),
             Pointers(options.environment),
             options.directory.c_str(),
             options.out,
             options.err,
             options.inherits,
             options.death_signal,
             getpid(),
             failed[1]};
  if (options.environment.empty()) {
    p.envp.clear();
    for (char** e = environ; *e != nullptr; ++e) p.envp.push_back(*e);
    p.envp.push_back(nullptr);
  }
  const pid_t pid = fork();
  if (pid == 0) RunChild(p);
  const int fork_error = errno;
  close(failed[1]);
  int error = 0;
  ssize_t n = 0;
  if (pid > 0) {
    while ((n = read(failed[0], &error, sizeof(error))) < 0 && errno == EINTR) {
    }
  }
  close(failed[0]);
  if (pid < 0) return absl::InternalError(absl::StrCat("fork: ", std::strerror(fork_error)));
  if (n <= 0) return Child(pid);
  waitpid(pid, nullptr, 0);
  const std::string message =
      absl::StrCat("cannot start ", options.command[0], ": ", std::strerror(error));
  return error == ENOENT || error == ENOTDIR ? absl::NotFoundError(message)
                                             : absl::InternalError(message);
}

// glibc 2.36 and kernel 5.3 have pidfd_open; where it is not, -1 says so.
Child::Child(pid_t pid) : pid_(pid), end_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      end_(std::move(other.end_)),
      code_(std::exchange(other.code_, std::nullopt)) {}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(end_, other.end_);
  std::swap(code_, other.code_);
  return *this;
}

Child::~Child() {
  if (pid_ <= 0 || Poll()) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::optional<int> Child::Poll() {
  if (pid_ <= 0 || code_) return code_;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  code_ = WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status);
  return code_;
}

bool Child::WaitFor(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (running()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(kPollInterval);  // there is no wait for a child with a deadline
  }
  return true;
}

void Child::Signal(int number) {
  if (running()) kill(pid_, number);
}

std::string HowEnded(std::optional<int> code) {
  if (!code) return "ended";
  if (*code <= kSignalled) return absl::StrCat("ended with code ", *code);
  const int number = *code - kSignalled;
  const char* name = sigdescr_np(number);
  return absl::StrCat("was ended by signal ", number,
                      name == nullptr ? "" : absl::StrCat(" (", name, ")"));
}

absl::StatusOr<std::string> ReadAddress(int fd, const std::string& name, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  std::string text;
  while (true) {
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      const bool whole = line.end() != text.data() + text.size();
      if (whole && absl::ConsumePrefix(&line, kListening)) return std::string(line);
    }
    pollfd poll_fd{fd, POLLIN, 0};
    const int64_t left = absl::ToInt64Milliseconds(deadline - absl::Now());
    if (left <= 0) {
      return absl::DeadlineExceededError(absl::StrCat(
          name, " did not tell its port within ", absl::FormatDuration(timeout), Printed(text)));
    }
    if (poll(&poll_fd, 1, static_cast<int>(left)) <= 0) continue;
    char chunk[512];
    const ssize_t n = read(fd, chunk, sizeof(chunk));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return absl::UnavailableError(
          absl::StrCat(name, " ended before it told its port", Printed(text)));
    }
    text.append(chunk, static_cast<size_t>(n));
  }
}

}  // namespace coxswain::local
