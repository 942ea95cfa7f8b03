#include "tests/testing/process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace coxswain {
namespace {

constexpr int kNotStarted = 127;

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& s : strings) pointers.push_back(const_cast<char*>(s.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> MakeEnvironment(const Process::Environment& changes) {
  std::map<std::string, std::string> all;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string entry = *e;
    const size_t equals = entry.find('=');
    if (equals != std::string::npos) all[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  for (const auto& [name, value] : changes) all[name] = value;
  std::vector<std::string> entries;
  for (const auto& [name, value] : all) entries.push_back(absl::StrCat(name, "=", value));
  return entries;
}

// posix_spawn with the ends of the pipes as the child's stdout and stderr.
int Spawn(const std::vector<std::string>& command, const Process::Environment& environment, int out,
          int err, pid_t* pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, interrupts;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  // CTest's parents may ignore these; a child that inherits that could not be interrupted.
  sigemptyset(&interrupts);
  sigaddset(&interrupts, SIGINT);
  sigaddset(&interrupts, SIGQUIT);
  posix_spawnattr_setsigdefault(&attributes, &interrupts);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const std::vector<std::string> entries = MakeEnvironment(environment);
  const int error = posix_spawn(pid, command[0].c_str(), &actions, &attributes,
                                Pointers(command).data(), Pointers(entries).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return error;
}

}  // namespace

Process::Process(const std::vector<std::string>& command, const Environment& environment) {
  Start(command, environment);
}

void Process::Start(const std::vector<std::string>& command, const Environment& environment) {
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0) return Fail(absl::StrCat("pipe: ", std::strerror(errno)));
  if (pipe2(err, O_CLOEXEC) != 0) {
    close(out[0]);
    close(out[1]);
    return Fail(absl::StrCat("pipe: ", std::strerror(errno)));
  }
  const int error = Spawn(command, environment, out[1], err[1], &pid_);
  close(out[1]);
  close(err[1]);
  if (error != 0) {
    pid_ = -1;
    close(out[0]);
    close(err[0]);
    return Fail(absl::StrCat("cannot start ", command[0], ": ", std::strerror(error)));
  }
  {
    absl::MutexLock lock(&mu_);
    reading_ = 2;
  }
  threads_.emplace_back([this, fd = out[0]] { Read(fd, &out_); });
  threads_.emplace_back([this, fd = err[0]] { Read(fd, &err_); });
  threads_.emplace_back([this] { Reap(); });
}

void Process::Fail(const std::string& why) {
  absl::MutexLock lock(&mu_);
  ended_ = true;
  code_ = kNotStarted;
  err_ = why;
}

Process::~Process() {
  Kill(SIGKILL);
  for (std::thread& thread : threads_) thread.join();
}

void Process::Read(int fd, std::string* text) {
  char chunk[4096];
  while (true) {
    const ssize_t n = read(fd, chunk, sizeof(chunk));
    if (n < 0 && errno == EINTR) continue;
    absl::MutexLock lock(&mu_);
    if (n <= 0) break;
    text->append(chunk, static_cast<size_t>(n));
  }
  close(fd);
  absl::MutexLock lock(&mu_);
  --reading_;
}

void Process::Reap() {
  siginfo_t info;
  // The process stays a zombie, and its number its own, until the lock is held: see Kill.
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  absl::MutexLock lock(&mu_);
  int status = 0;
  waitpid(pid_, &status, 0);
  code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  ended_ = true;
}

bool Process::WaitFor(const std::string& text, const std::string& written,
                      absl::Duration timeout) const {
  absl::MutexLock lock(&mu_);
  const auto there = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return absl::StrContains(written, text) || (ended_ && reading_ == 0);
  };
  mu_.AwaitWithTimeout(absl::Condition(&there), timeout);
  return absl::StrContains(written, text);
}

Process::Result Process::Wait(absl::Duration timeout) {
  bool in_time;
  {
    absl::MutexLock lock(&mu_);
    const auto over = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return ended_ && reading_ == 0; };
    in_time = mu_.AwaitWithTimeout(absl::Condition(&over), timeout);
  }
  if (!in_time) Kill(SIGKILL);
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  absl::MutexLock lock(&mu_);
  return {in_time ? code_ : kTimedOut, out_, err_};
}

void Process::Kill(int signal) const {
  {
    absl::MutexLock lock(&mu_);
    if (pid_ <= 0 || ended_) return;
    kill(pid_, signal);
  }
  if (signal != SIGSTOP) return;
  // The kernel tells the parent once the last thread stands; until then the others go on working.
  siginfo_t info;
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WEXITED | WNOWAIT) != 0 &&
         errno == EINTR) {
  }
}

std::string Process::out() const {
  absl::MutexLock lock(&mu_);
  return out_;
}

std::string Process::err() const {
  absl::MutexLock lock(&mu_);
  return err_;
}

Process::Result Run(const std::vector<std::string>& command,
                    const Process::Environment& environment, absl::Duration timeout) {
  return Process(command, environment).Wait(timeout);
}

}  // namespace coxswain
