// Tasks as objects of this process. There is nobody to start one again whose GPU has failed for
// good, and a process cannot use such a GPU any more: that is the end of the cluster.
#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/local/local_tasks.h"
#include "coordinator/local/task_watch.h"
#include "ps_server/ps_service.h"
#include "runtime/base/status.h"
#include "runtime/cluster/table_directory.h"
#include "runtime/config/yaml_reader.h"
#include "runtime/device/open_devices.h"
#include "worker_server/worker_service.h"

namespace coxswain::local {
namespace {

class InProcessTasks final : public LocalTasks {
 public:
  absl::Status Start(int num_ps, int num_workers, env::Env* env, net::Transport* transport,
                     const graph::OpRegistry* registry) {
    const auto devices = device::OpenDevices(device::WantedGpus(), env);
    if (!devices.ok()) {
      return config::ConfigurationError(
          absl::StrCat(device::kGpusVariable, ": ", devices.status().message()));
    }
    RETURN_IF_ERROR(CheckWantedTableDirectory());
    for (int p = 0; p < num_ps; ++p) {
      config_.ps.push_back(absl::StrCat("ps:", p));
      cluster::DaemonOptions options{"ps", p, config_.ps.back()};
      options.open_devices = [devices] { return devices; };
      options.device_lost = Lost(options);
      options.table_directory = cluster::WantedTableDirectory();
      ps_.push_back(std::make_unique<ps::PsService>(env, transport, registry, std::move(options)));
      RETURN_IF_ERROR(ps_.back()->Start());
    }
    for (int w = 0; w < num_workers; ++w) {
      config_.workers.push_back(absl::StrCat("worker:", w));
      cluster::DaemonOptions options{"worker", w, config_.workers.back()};
      options.devices = *devices;
      options.device_lost = Lost(options);
      workers_.push_back(
          std::make_unique<worker::WorkerService>(env, transport, registry, std::move(options)));
      RETURN_IF_ERROR(workers_.back()->Start());
    }
    return absl::OkStatus();
  }

  const cluster::ClusterConfig& config() const override { return config_; }

  void Watch(LocalTaskEvents events) override {
    watch_.Begin(std::move(events));
    Tell();
  }
  void StopWatching() override { watch_.End(); }

 private:
  std::function<void(absl::Status)> Lost(const cluster::DaemonOptions& options) {
    return [this, task = absl::StrCat("/job:", options.job, "/task:", options.task)](
               const absl::Status& status) {
      {
        const absl::MutexLock lock(&mu_);
        if (!lost_.ok()) return;
        lost_ = WithDetail(absl::UnavailableError(
                               absl::StrCat(task, ": ", status.message(),
                                            ": a GPU that failed for good cannot be used any more ",
                                            "by this process, in which all tasks are")),
                           {ErrorCause::kTaskLost, false, task, 0});
      }
      Tell();
    };
  }
  // Whoever watches, if there is something to tell.
  void Tell() {
    absl::Status lost;
    {
      const absl::MutexLock lock(&mu_);
      lost = lost_;
    }
    if (lost.ok()) return;
    watch_.Do([&](const LocalTaskEvents& events) { events.on_hopeless(lost); });
  }

  cluster::ClusterConfig config_;
  TaskWatch watch_;
  absl::Mutex mu_;
  absl::Status lost_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<ps::PsService>> ps_;
  std::vector<std::unique_ptr<worker::WorkerService>> workers_;  // end first
};

}  // namespace

absl::StatusOr<std::unique_ptr<LocalTasks>> StartInProcessTasks(int num_ps, int num_workers,
                                                                env::Env* env,
                                                                net::Transport* transport,
                                                                const graph::OpRegistry* registry) {
  auto tasks = std::make_unique<InProcessTasks>();
  RETURN_IF_ERROR(tasks->Start(num_ps, num_workers, env, transport, registry));
  return std::unique_ptr<LocalTasks>(std::move(tasks));
}

}  // namespace coxswain::local
