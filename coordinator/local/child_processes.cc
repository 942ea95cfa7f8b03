#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/local/local_tasks.h"
#include "coordinator/local/task_keeper.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/cluster/table_directory.h"
#include "runtime/config/yaml_reader.h"
#include "runtime/device/open_devices.h"
#include "runtime/env/process_limits.h"
#include "runtime/net/shm_segment.h"

namespace coxswain::local {
namespace {

// Whether tasks are to listen on ports. Behind a socket of their own they have nothing but shared
// memory, which must have room in the address space of the process with most peers.
bool NeedsTcp(int most_peers) {
  const char* transport = std::getenv("COXSWAIN_TRANSPORT");  // see NewHostTransport
  if (transport != nullptr && absl::string_view(transport) == "grpc") return true;
  if (env::HasAddressSpaceFor(2 * net::kShmArenaBytes * static_cast<uint64_t>(most_peers)))
    return false;
  LogWarning(
      "no shared memory between this process and its daemons: their address space is limited "
      "(`ulimit -v`); they use TCP, which is slower");
  return true;
}

class ChildTasks final : public LocalTasks {
 public:
  explicit ChildTasks(const RestartPolicy& restarts) : keeper_(restarts) {}

  absl::Status Start(int num_ps, int num_workers, int worker_threads, const std::string& directory,
                     const net::Secret& secret) {
    if (!secret.empty()) {
      ASSIGN_OR_RETURN(secret_, secret.ToDescriptor());
    }
    // The tasks would find it, too, but only end, each with an error of its own.
    if (const absl::Status gpus = device::CheckGpusThere(device::WantedGpus()); !gpus.ok()) {
      return config::ConfigurationError(absl::StrCat(device::kGpusVariable, ": ", gpus.message()));
    }
    RETURN_IF_ERROR(CheckWantedTableDirectory());
    const bool tcp = NeedsTcp(num_ps + num_workers);
    std::vector<DaemonLaunch> launches;
    const auto add = [&](const char* job, int count, int threads) {
      for (int task = 0; task < count; ++task) {
        DaemonLaunch launch{directory, job, task, threads, "warning"};
        launch.secret = secret_.get();
        launch.insecure = secret.empty();
        launch.same_user = !tcp;
        launches.push_back(std::move(launch));
      }
    };
    add("ps", num_ps, ThreadsPerPs(num_ps));
    add("worker", num_workers, worker_threads);
    RETURN_IF_ERROR(keeper_.Start(std::move(launches)));
    const std::vector<std::string> addresses = keeper_.Addresses();
    config_.ps.assign(addresses.begin(), addresses.begin() + num_ps);
    config_.workers.assign(addresses.begin() + num_ps, addresses.end());
    return absl::OkStatus();
  }

  const cluster::ClusterConfig& config() const override { return config_; }
  std::map<std::string, Incarnation> incarnations() const override {
    return keeper_.Incarnations();
  }
  void Watch(LocalTaskEvents events) override { keeper_.Watch(std::move(events)); }
  void StopWatching() override { keeper_.StopWatching(); }

 private:
  cluster::ClusterConfig config_;
  net::UniqueFd secret_;  // for those that are started again
  TaskKeeper keeper_;
};

}  // namespace

absl::StatusOr<LocalSize> ParseLocalSize(const std::string& text) {
  const std::vector<std::string> counts = absl::StrSplit(text, 'x');
  LocalSize size;
  if (counts.size() != 2 || !absl::SimpleAtoi(counts[0], &size.ps) ||
      !absl::SimpleAtoi(counts[1], &size.workers) || size.ps < 1 || size.workers < 1) {
    return config::ConfigurationError(
        absl::StrCat("--local ", text,
                     ": wanted PSxW, for example 2x2 for two parameter "
                     "servers and two workers"));
  }
  return size;
}

absl::Status CheckWantedTableDirectory() {
  const absl::Status checked = cluster::CheckTableDirectory(cluster::WantedTableDirectory());
  if (checked.ok()) return checked;
  return config::ConfigurationError(
      absl::StrCat(cluster::kTableDirectoryVariable, ": ", checked.message()));
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

int ThreadsPerPs(int num_ps) {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / 2 / num_ps);
}

absl::StatusOr<std::unique_ptr<LocalTasks>> StartChildTasks(int num_ps, int num_workers,
                                                            int worker_threads,
                                                            const std::string& directory,
                                                            const net::Secret& secret,
                                                            const RestartPolicy& restarts) {
  auto tasks = std::make_unique<ChildTasks>(restarts);
  RETURN_IF_ERROR(tasks->Start(num_ps, num_workers, worker_threads, directory, secret));
  return std::unique_ptr<LocalTasks>(std::move(tasks));
}

}  // namespace coxswain::local
