#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "coordinator/local/local_tasks.h"
#include "runtime/base/status.h"

namespace coxswain {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(20);
constexpr absl::Duration kTermTimeout = absl::Seconds(5);
constexpr char kListening[] = "listening on ";

// A child that is ended when the object goes: SIGTERM, and SIGKILL if it does not follow in time.
class Child {
 public:
  Child(pid_t pid, int out) : pid_(pid), out_(out) {}
  Child(Child&& o) noexcept : pid_(std::exchange(o.pid_, -1)), out_(std::exchange(o.out_, -1)) {}
  Child& operator=(Child&&) = delete;
  ~Child() {
    if (out_ >= 0) close(out_);
    if (pid_ <= 0) return;
    const absl::Time deadline = absl::Now() + kTermTimeout;
    while (waitpid(pid_, nullptr, WNOHANG) == 0) {
      if (absl::Now() > deadline) {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        return;
      }
      absl::SleepFor(absl::Milliseconds(5));  // there is no wait for a child with a deadline
    }
  }
  void Terminate() const {
    if (pid_ > 0) kill(pid_, SIGTERM);
  }

  // Reads the child's output up to the line that tells its address.
  absl::StatusOr<std::string> WaitForAddress(const std::string& name) const {
    const absl::Time deadline = absl::Now() + kStartTimeout;
    std::string text;
    while (true) {
      for (absl::string_view line : absl::StrSplit(text, '\n')) {
        const bool whole = line.end() != text.data() + text.size();
        if (whole && absl::ConsumePrefix(&line, kListening)) return std::string(line);
      }
      pollfd fd{out_, POLLIN, 0};
      const int64_t left = absl::ToInt64Milliseconds(deadline - absl::Now());
      if (left <= 0) {
        return absl::DeadlineExceededError(absl::StrCat(name, " did not tell its port within ",
                                                        absl::FormatDuration(kStartTimeout),
                                                        "; it printed: ", text));
      }
      if (poll(&fd, 1, static_cast<int>(left)) <= 0) continue;
      char chunk[512];
      const ssize_t n = read(out_, chunk, sizeof(chunk));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        return absl::InternalError(absl::StrCat(name, " ended at once; it printed: ", text));
      }
      text.append(chunk, static_cast<size_t>(n));
    }
  }

 private:
  pid_t pid_;
  int out_;
};

absl::StatusOr<Child> Spawn(const std::vector<std::string>& command) {
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) {
    return absl::InternalError(absl::StrCat("pipe: ", std::strerror(errno)));
  }
  std::vector<char*> argv;
  for (const std::string& part : command) argv.push_back(const_cast<char*>(part.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A group of its own: Ctrl-C is for the coordinator, which ends its tasks in order.
  posix_spawnattr_setpgroup(&attributes, 0);
  // The coordinator blocks signals that its tasks must see.
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(out[1]);
  if (error != 0) {
    close(out[0]);
    return absl::NotFoundError(
        absl::StrCat("cannot start ", command[0], ": ", std::strerror(error)));
  }
  return Child(pid, out[0]);
}

class ChildTasks final : public LocalTasks {
 public:
  ~ChildTasks() override {
    for (const Child& child : children_) child.Terminate();
  }

  absl::Status Start(int num_ps, int num_workers, int worker_threads,
                     const std::string& directory) {
    std::vector<std::string> names;
    const auto spawn = [&](const std::string& job, int task, int threads) -> absl::Status {
      ASSIGN_OR_RETURN(Child child,
                       Spawn({absl::StrCat(directory, "/coxswain-", job), "--task",
                              absl::StrCat(task), "--port", "0", "--threads", absl::StrCat(threads),
                              "--exit-with-parent", "--log-level", "warning"}));
      children_.push_back(std::move(child));
      names.push_back(absl::StrCat("/job:", job, "/task:", task));
      return absl::OkStatus();
    };
    for (int p = 0; p < num_ps; ++p) RETURN_IF_ERROR(spawn("ps", p, 1));
    for (int w = 0; w < num_workers; ++w) RETURN_IF_ERROR(spawn("worker", w, worker_threads));
    for (size_t i = 0; i < children_.size(); ++i) {
      ASSIGN_OR_RETURN(std::string address, children_[i].WaitForAddress(names[i]));
      (i < static_cast<size_t>(num_ps) ? config_.ps : config_.workers).push_back(address);
    }
    return absl::OkStatus();
  }

  const ClusterConfig& config() const override { return config_; }

 private:
  ClusterConfig config_;
  std::vector<Child> children_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LocalTasks>> StartChildTasks(int num_ps, int num_workers,
                                                            int worker_threads,
                                                            const std::string& directory) {
  auto tasks = std::make_unique<ChildTasks>();
  RETURN_IF_ERROR(tasks->Start(num_ps, num_workers, worker_threads, directory));
  return std::unique_ptr<LocalTasks>(std::move(tasks));
}

}  // namespace coxswain
