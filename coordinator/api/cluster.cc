#include "coordinator/api/cluster.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "coordinator/api/wait.h"
#include "coordinator/api/wait_reporter.h"
#include "coordinator/core/controller.h"
#include "coordinator/local/local_tasks.h"
#include "kernels/register.h"
#include "runtime/base/status.h"
#include "runtime/env/env.h"
#include "runtime/function/partition.h"
#include "runtime/net/transport.h"

namespace coxswain {

// The parts of a cluster in the order in which they are made; they end in the opposite order.
class ClusterState {
 public:
  std::unique_ptr<Env> env;
  OpRegistry registry;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<LocalTasks> tasks;
  std::unique_ptr<Controller> controller;
  std::atomic<uint64_t> last_owner{0};
  std::atomic<int> num_workers{0};

  explicit ClusterState(int threads) : env(NewRealEnv(threads)) {
    RegisterAllOps(&registry);
    RegisterPsCall(&registry);
  }
};

namespace {

std::string CoordinatorName() {
  char host[HOST_NAME_MAX + 1] = "";
  gethostname(host, HOST_NAME_MAX);
  return absl::StrCat(host, ":", getpid());
}

absl::Status CheckCounts(int num_ps, int num_workers) {
  constexpr int kMost = 1024;
  if (num_ps >= 1 && num_workers >= 1 && num_ps <= kMost && num_workers <= kMost) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("a cluster has 1 to ", kMost,
                                                 " parameter servers and workers, found ", num_ps,
                                                 "x", num_workers));
}

}  // namespace

absl::StatusOr<Cluster> Cluster::Start(std::shared_ptr<ClusterState> state,
                                       const ClusterConfig& config, const ClusterOptions& options) {
  ControllerOptions c;
  c.workers = config.workers;
  state->num_workers = static_cast<int>(config.workers.size());
  c.ps = config.ps;
  c.name = CoordinatorName();
  c.in_flight = options.closures_in_flight;
  c.lease = options.lease;
  c.connect_timeout = options.connect_timeout;
  c.straggler_timeout = options.straggler_timeout;
  c.recovery = options.recovery;
  c.min_epoch = options.min_epoch;
  c.on_event = options.on_event;
  state->controller = std::make_unique<Controller>(state->env.get(), state->transport.get(), c);
  Cluster cluster(std::move(state));
  RETURN_IF_ERROR(WaitForStatus([&](auto done) { cluster.controller()->Start(std::move(done)); }));
  return cluster;
}

absl::StatusOr<Cluster> Cluster::Connect(const ClusterConfig& config,
                                         const ClusterOptions& options) {
  RETURN_IF_ERROR(
      CheckCounts(static_cast<int>(config.ps.size()), static_cast<int>(config.workers.size())));
  auto state = std::make_shared<ClusterState>(1);
  state->transport = NewHostTransport();
  return Start(std::move(state), config, options);
}

absl::StatusOr<Cluster> Cluster::Connect(const std::string& file, const ClusterOptions& options) {
  ASSIGN_OR_RETURN(ClusterConfig config, ReadClusterConfig(file));
  return Connect(config, options);
}

absl::StatusOr<Cluster> Cluster::InProcess(int num_ps, int num_workers,
                                           const ClusterOptions& options) {
  RETURN_IF_ERROR(CheckCounts(num_ps, num_workers));
  auto state = std::make_shared<ClusterState>(options.threads);
  state->transport = NewInProcessTransport();
  ASSIGN_OR_RETURN(state->tasks, StartInProcessTasks(num_ps, num_workers, state->env.get(),
                                                     state->transport.get(), &state->registry));
  const ClusterConfig config = state->tasks->config();
  return Start(std::move(state), config, options);
}

absl::StatusOr<Cluster> Cluster::Local(int num_ps, int num_workers, const ClusterOptions& options) {
  RETURN_IF_ERROR(CheckCounts(num_ps, num_workers));
  std::string directory = options.daemon_directory;
  if (directory.empty()) {
    ASSIGN_OR_RETURN(directory, ProgramDirectory());
  }
  const int threads = options.threads > 0 ? options.threads : ThreadsPerWorker(num_workers);
  auto state = std::make_shared<ClusterState>(1);
  state->transport = NewHostTransport();
  ASSIGN_OR_RETURN(state->tasks, StartChildTasks(num_ps, num_workers, threads, directory));
  const ClusterConfig config = state->tasks->config();
  return Start(std::move(state), config, options);
}

int Cluster::num_ps() const { return controller()->num_ps(); }
int Cluster::num_workers() const { return state_->num_workers; }

std::vector<proto::TaskStatus> Cluster::Status() const {
  auto status = WaitForValue<std::vector<proto::TaskStatus>>(
      [&](auto done) { controller()->QueryStatus(std::move(done)); });
  return status.ok() ? *std::move(status) : std::vector<proto::TaskStatus>();
}

absl::Status Cluster::UpdateWorkers(const std::vector<std::string>& addresses) const {
  RETURN_IF_ERROR(CheckCounts(num_ps(), static_cast<int>(addresses.size())));
  std::set<std::string> seen;
  for (const std::string& address : addresses) {
    if (state_->tasks == nullptr) RETURN_IF_ERROR(CheckAddress(address));
    if (!seen.insert(address).second) {
      return absl::InvalidArgumentError(absl::StrCat("address '", address, "' is given twice"));
    }
  }
  state_->num_workers = static_cast<int>(addresses.size());
  controller()->UpdateWorkers(addresses);
  return absl::OkStatus();
}

ClusterStats Cluster::Stats() const {
  auto stats =
      WaitForValue<Controller::Stats>([&](auto done) { controller()->GetStats(std::move(done)); });
  if (!stats.ok()) return {};
  return {stats->closures,      stats->failures, stats->checkpoints,
          stats->workers_ready, stats->workers,  std::move(stats->waiting_for)};
}

absl::Status Cluster::WaitUntilSettled() const {
  struct State {
    absl::Notification done;
    absl::Status status;
  };
  auto state = std::make_shared<State>();
  const absl::Time start = absl::Now();
  controller()->AwaitSettled([state](absl::Status status) {
    state->status = std::move(status);
    state->done.Notify();
  });
  while (!state->done.WaitForNotificationWithTimeout(kSilence)) {
    WaitReporter(*this).Report("what is not over since a parameter server was lost",
                               absl::Now() - start);
  }
  return state->status;
}

uint64_t Cluster::NewOwner() const { return ++state_->last_owner; }
Controller* Cluster::controller() const { return state_->controller.get(); }
Env* Cluster::env() const { return state_->env.get(); }
const OpRegistry* Cluster::registry() const { return &state_->registry; }

}  // namespace coxswain
