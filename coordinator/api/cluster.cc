// The parts and the end of a cluster (ClusterState), the ways to create one (Connect, Local,
// InProcess), and the queries of programs.
#include "coxswain/cluster.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "coordinator/api/catalog.h"
#include "coordinator/api/check_options.h"
#include "coordinator/api/cluster_identity.h"
#include "coordinator/api/wait.h"
#include "coordinator/api/wait_reporter.h"
#include "coordinator/core/controller.h"
#include "coordinator/local/local_tasks.h"
#include "kernels/register.h"
#include "protos/control.pb.h"
#include "runtime/base/status.h"
#include "runtime/env/env.h"
#include "runtime/env/process_limits.h"
#include "runtime/env/this_process.h"
#include "runtime/function/partition.h"
#include "runtime/function/place_on_devices.h"
#include "runtime/net/credentials.h"

namespace coxswain {

// The parts of a cluster in the order of their creation; they are destroyed in the opposite order.
class ClusterState {
 public:
  std::unique_ptr<env::Env> env;
  graph::OpRegistry registry;
  std::unique_ptr<net::Transport> transport;
  std::unique_ptr<local::LocalTasks> tasks;
  std::unique_ptr<core::Controller> controller;
  std::unique_ptr<Catalog> catalog;
  std::string identity;
  std::atomic<uint64_t> last_owner{0};
  std::atomic<int> num_workers{0};

  // From here on no task is restarted, and the controller gets no events.
  ~ClusterState() {
    if (tasks != nullptr) tasks->StopWatching();
  }

  explicit ClusterState(int threads) : env(env::NewRealEnv(threads)) {
    kernels::RegisterAllOps(&registry);
    function::RegisterPsCall(&registry);
    function::RegisterCopies(&registry);
  }
};

namespace {

// "host:pid", or "films (host:pid)", on one line of a log whatever the name is.
std::string CoordinatorName(absl::string_view name) {
  constexpr size_t kMost = 64;
  const std::string process = absl::StrCat(env::HostName(), ":", getpid());
  if (name.empty()) return process;
  return absl::StrCat(absl::CEscape(name).substr(0, kMost), " (", process, ")");
}

local::LocalTaskEvents EventsFor(core::Controller* controller) {
  local::LocalTaskEvents events;
  events.on_incarnation = [controller](const std::string& address, Incarnation incarnation) {
    controller->ExpectIncarnation(address, incarnation);
  };
  events.on_ended = [controller](const std::string& task, const std::string& message) {
    controller->TaskEnded(task, message);
  };
  events.on_hopeless = [controller](absl::Status why) { controller->GiveUp(std::move(why)); };
  return events;
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
                                       const cluster::ClusterConfig& config,
                                       const ClusterOptions& options) {
  core::ControllerOptions c;
  c.workers = config.workers;
  state->num_workers = static_cast<int>(config.workers.size());
  c.ps = config.ps;
  state->catalog = std::make_unique<Catalog>(static_cast<int>(config.ps.size()));
  c.name = CoordinatorName(options.name);
  c.in_flight = options.closures_in_flight;
  c.lease = options.lease;
  c.connect_timeout = options.connect_timeout;
  c.straggler_timeout = options.straggler_timeout;
  c.recovery = options.recovery;
  c.min_epoch = options.min_epoch;
  c.on_event = options.on_event;
  if (state->tasks != nullptr) c.incarnations = state->tasks->incarnations();
  state->controller =
      std::make_unique<core::Controller>(state->env.get(), state->transport.get(), c);
  if (state->tasks != nullptr) state->tasks->Watch(EventsFor(state->controller.get()));
  Cluster cluster(std::move(state));
  // The controller ends this by itself, after `connect_timeout`, and says what it waits for.
  RETURN_IF_ERROR(WaitForStatus([&](auto done) { cluster.controller()->Start(std::move(done)); }));
  return cluster;
}

absl::StatusOr<Cluster> Cluster::Connect(const cluster::ClusterConfig& config,
                                         const ClusterOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  RETURN_IF_ERROR(
      CheckCounts(static_cast<int>(config.ps.size()), static_cast<int>(config.workers.size())));
  ASSIGN_OR_RETURN(net::Credentials credentials,
                   net::FindCredentials({{options.secret_file, options.insecure},
                                         {options.tls_directory, options.tls_name}}));
  RETURN_IF_ERROR(env::CheckAddressSpace());
  auto state = std::make_shared<ClusterState>(1);
  state->transport = net::NewClusterTransport(std::move(credentials));
  state->identity = ClusterIdentity(config);
  return Start(std::move(state), config, options);
}

absl::StatusOr<Cluster> Cluster::Connect(const std::string& file, const ClusterOptions& options) {
  ASSIGN_OR_RETURN(cluster::ClusterConfig config, cluster::ReadClusterConfig(file));
  return Connect(config, options);
}

absl::StatusOr<Cluster> Cluster::InProcess(int num_ps, int num_workers,
                                           const ClusterOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  RETURN_IF_ERROR(CheckCounts(num_ps, num_workers));
  RETURN_IF_ERROR(env::CheckAddressSpace());
  auto state = std::make_shared<ClusterState>(options.threads);
  state->transport = net::NewInProcessTransport();
  ASSIGN_OR_RETURN(state->tasks,
                   local::StartInProcessTasks(num_ps, num_workers, state->env.get(),
                                              state->transport.get(), &state->registry));
  const cluster::ClusterConfig config = state->tasks->config();
  return Start(std::move(state), config, options);
}

absl::StatusOr<Cluster> Cluster::Local(int num_ps, int num_workers, const ClusterOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  RETURN_IF_ERROR(CheckCounts(num_ps, num_workers));
  RETURN_IF_ERROR(env::CheckAddressSpace());
  std::string directory = options.daemon_directory;
  if (directory.empty()) {
    ASSIGN_OR_RETURN(directory, local::ProgramDirectory());
  }
  const int threads = options.threads > 0 ? options.threads : local::ThreadsPerWorker(num_workers);
  auto state = std::make_shared<ClusterState>(1);
  const net::Secret secret = net::Secret::Random();
  state->transport = net::NewClusterTransport({secret, nullptr});
  local::RestartPolicy restarts;
  restarts.most = options.local_restarts;
  ASSIGN_OR_RETURN(state->tasks, local::StartChildTasks(num_ps, num_workers, threads, directory,
                                                        secret, restarts));
  const cluster::ClusterConfig config = state->tasks->config();
  return Start(std::move(state), config, options);
}

const std::string& Cluster::identity() const { return state_->identity; }
int Cluster::num_ps() const { return controller()->num_ps(); }
int Cluster::num_workers() const { return state_->num_workers; }

absl::Status Cluster::UpdateWorkers(const std::vector<std::string>& addresses) const {
  RETURN_IF_ERROR(CheckCounts(num_ps(), static_cast<int>(addresses.size())));
  std::set<std::string> seen;
  for (const std::string& address : addresses) {
    if (state_->tasks == nullptr) RETURN_IF_ERROR(cluster::CheckAddress(address));
    if (!seen.insert(address).second) {
      return absl::InvalidArgumentError(absl::StrCat("address '", address, "' is given twice"));
    }
  }
  state_->num_workers = static_cast<int>(addresses.size());
  controller()->UpdateWorkers(addresses);
  return absl::OkStatus();
}

ClusterStats Cluster::Stats() const {
  auto stats = WaitForValue<core::Controller::Stats>(
      [&](auto done) { controller()->GetStats(std::move(done)); });
  if (!stats.ok()) return {};
  return {stats->closures,      stats->failures, stats->checkpoints,
          stats->workers_ready, stats->workers,  std::move(stats->waiting_for)};
}

absl::Status Cluster::WaitUntilSettled() const {
  return WaitForStatus(
      [this](auto done) { controller()->AwaitSettled(std::move(done)); },
      WaitReporter(*this).For("what is not over since a parameter server was lost"));
}

uint64_t Cluster::NewOwner() const { return ++state_->last_owner; }
core::Controller* Cluster::controller() const { return state_->controller.get(); }
Catalog* Cluster::catalog() const { return state_->catalog.get(); }
env::Env* Cluster::env() const { return state_->env.get(); }
const graph::OpRegistry* Cluster::registry() const { return &state_->registry; }

}  // namespace coxswain
