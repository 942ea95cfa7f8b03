#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "coordinator/local/child.h"
#include "coordinator/local/local_tasks.h"
#include "runtime/base/status.h"
#include "runtime/config/yaml_reader.h"

namespace coxswain {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(20);
constexpr absl::Duration kTermTimeout = absl::Seconds(5);

class ChildTasks final : public LocalTasks {
 public:
  // SIGTERM to all, and SIGKILL to those that do not follow in time.
  ~ChildTasks() override {
    for (Task& task : tasks_) task.child.Signal(SIGTERM);
    const absl::Time deadline = absl::Now() + kTermTimeout;
    for (Task& task : tasks_) {
      task.child.WaitFor(deadline - absl::Now());
      close(task.out);
    }
  }

  absl::Status Start(int num_ps, int num_workers, int worker_threads,
                     const std::string& directory) {
    for (int p = 0; p < num_ps; ++p) RETURN_IF_ERROR(StartTask(directory, "ps", p, 1));
    for (int w = 0; w < num_workers; ++w) {
      RETURN_IF_ERROR(StartTask(directory, "worker", w, worker_threads));
    }
    for (size_t i = 0; i < tasks_.size(); ++i) {
      ASSIGN_OR_RETURN(std::string address,
                       ReadAddress(tasks_[i].out, tasks_[i].name, kStartTimeout));
      (i < static_cast<size_t>(num_ps) ? config_.ps : config_.workers).push_back(address);
    }
    return absl::OkStatus();
  }

  const ClusterConfig& config() const override { return config_; }

 private:
  struct Task {
    std::string name;
    Child child;
    int out;  // the reading end of its stdout
  };

  absl::Status StartTask(const std::string& directory, const std::string& job, int task,
                         int threads) {
    int out[2];
    if (pipe2(out, O_CLOEXEC) != 0) {
      return absl::InternalError(absl::StrCat("pipe: ", std::strerror(errno)));
    }
    ChildOptions options;
    options.command = {absl::StrCat(directory, "/coxswain-", job),
                       "--task",
                       absl::StrCat(task),
                       "--port",
                       "0",
                       "--threads",
                       absl::StrCat(threads),
                       "--log-level",
                       "warning"};
    options.out = out[1];
    options.death_signal = SIGTERM;
    auto child = Child::Start(options);
    close(out[1]);
    if (!child.ok()) {
      close(out[0]);
      return child.status();
    }
    tasks_.push_back({absl::StrCat("/job:", job, "/task:", task), *std::move(child), out[0]});
    return absl::OkStatus();
  }

  ClusterConfig config_;
  std::vector<Task> tasks_;
};

}  // namespace

absl::StatusOr<LocalSize> ParseLocalSize(const std::string& text) {
  const std::vector<std::string> counts = absl::StrSplit(text, 'x');
  LocalSize size;
  if (counts.size() != 2 || !absl::SimpleAtoi(counts[0], &size.ps) ||
      !absl::SimpleAtoi(counts[1], &size.workers) || size.ps < 1 || size.workers < 1) {
    return ConfigurationError(absl::StrCat("--local ", text,
                                           ": wanted PSxW, for example 2x2 for two parameter "
                                           "servers and two workers"));
  }
  return size;
}

absl::StatusOr<std::string> ProgramDirectory() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return absl::InternalError("cannot tell where this program is");
  return self.parent_path().string();
}

int ThreadsPerWorker(int num_workers) {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / num_workers);
}

absl::StatusOr<std::unique_ptr<LocalTasks>> StartChildTasks(int num_ps, int num_workers,
                                                            int worker_threads,
                                                            const std::string& directory) {
  auto tasks = std::make_unique<ChildTasks>();
  RETURN_IF_ERROR(tasks->Start(num_ps, num_workers, worker_threads, directory));
  return std::unique_ptr<LocalTasks>(std::move(tasks));
}

}  // namespace coxswain
