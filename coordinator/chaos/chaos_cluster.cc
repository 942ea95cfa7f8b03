#include "coordinator/chaos/chaos_cluster.h"

#include <signal.h>

#include <cerrno>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "coordinator/observe/observer.h"
#include "protos/control.pb.h"
#include "runtime/base/status.h"
#include "runtime/env/file_system.h"
#include "runtime/env/this_process.h"
#include "runtime/net/transport.h"

namespace coxswain::chaos {
namespace {

constexpr absl::Duration kTermTimeout = absl::Seconds(5);

std::string Listed(const std::vector<std::string>& addresses) {
  return absl::StrJoin(addresses, ", ", [](std::string* out, const std::string& address) {
    absl::StrAppend(out, "\"", address, "\"");
  });
}

absl::StatusOr<ManagedTask> AdoptTask(const std::string& name, const std::string& address,
                                      const absl::StatusOr<proto::TaskStatus>& answer) {
  if (!answer.ok()) {
    return WithDetail(absl::UnavailableError(absl::StrCat(
                          name, " at ", address, " is not there: ", answer.status().message())),
                      {ErrorCause::kUnreachable, false, "", 0});
  }
  if (answer->pid() <= 0 || answer->host() != env::HostName()) {
    return WithDetail(
        absl::FailedPreconditionError(absl::StrCat(
            name, " at ", address, " runs on ",
            answer->host().empty() ? "a machine that it does not name" : answer->host(),
            ", and this is ", env::HostName(),
            ": faults can only be done to daemons of the machine that `coxswain chaos` runs on")),
        {ErrorCause::kConfiguration, false, "", 0});
  }
  return ManagedTask::Adopt(name, address, static_cast<pid_t>(answer->pid()));
}

}  // namespace

absl::StatusOr<ChaosCluster> ChaosCluster::Start(int num_ps, int num_workers, int worker_threads,
                                                 const std::string& directory,
                                                 net::Credentials credentials,
                                                 const std::string& work) {
  ChaosCluster cluster;
  cluster.credentials_ = std::move(credentials);
  const auto launch = [&](const std::string& job, int task, int threads) {
    return ManagedTask::Launch(directory, job, task, threads,
                               absl::StrCat(work, "/", job, "-", task, ".log"));
  };
  for (int p = 0; p < num_ps; ++p) {
    ASSIGN_OR_RETURN(ManagedTask task, launch("ps", p, 1));
    cluster.config_.ps.push_back(task.address());
    cluster.ps_.push_back(std::move(task));
  }
  for (int w = 0; w < num_workers; ++w) {
    ASSIGN_OR_RETURN(ManagedTask task, launch("worker", w, worker_threads));
    cluster.config_.workers.push_back(task.address());
    cluster.workers_.push_back(std::move(task));
  }
  cluster.file_ = absl::StrCat(work, "/cluster.yaml");
  RETURN_IF_ERROR(env::NewRealFileSystem()->WriteAtomically(
      cluster.file_, absl::StrCat("ps: [", Listed(cluster.config_.ps), "]\nworker: [",
                                  Listed(cluster.config_.workers), "]\n")));
  return cluster;
}

absl::StatusOr<ChaosCluster> ChaosCluster::Adopt(const std::string& cluster_file,
                                                 net::Credentials credentials,
                                                 absl::Duration timeout) {
  ChaosCluster cluster;
  cluster.credentials_ = std::move(credentials);
  cluster.adopted_ = true;
  cluster.file_ = cluster_file;
  ASSIGN_OR_RETURN(cluster.config_, cluster::ReadClusterConfig(cluster_file));
  const auto transport = net::NewClusterTransport(cluster.credentials_);
  std::vector<std::string> addresses = cluster.config_.ps;
  addresses.insert(addresses.end(), cluster.config_.workers.begin(), cluster.config_.workers.end());
  const auto answers = observe::ObserveTasks(transport.get(), addresses, timeout);
  for (size_t i = 0; i < answers.size(); ++i) {
    const size_t num_ps = cluster.config_.ps.size();
    const bool ps = i < num_ps;
    const std::string name = absl::StrCat(ps ? "ps:" : "worker:", ps ? i : i - num_ps);
    ASSIGN_OR_RETURN(ManagedTask task, AdoptTask(name, addresses[i], answers[i]));
    (ps ? cluster.ps_ : cluster.workers_).push_back(std::move(task));
  }
  return cluster;
}

ChaosCluster::~ChaosCluster() { End(); }

void ChaosCluster::End() {
  std::vector<ManagedTask*> all;
  for (ManagedTask& task : workers_) all.push_back(&task);
  for (ManagedTask& task : ps_) all.push_back(&task);
  for (ManagedTask* task : all) task->Signal(SIGCONT);
  if (adopted_) {
    for (ManagedTask* task : all) {
      if (!task->running()) (void)task->Restart();
      task->Release();
    }
  } else {
    for (ManagedTask* task : all) task->Signal(SIGTERM);
    const absl::Time deadline = absl::Now() + kTermTimeout;
    // Those that are late are killed by their destructor.
    for (ManagedTask* task : all) task->WaitFor(deadline - absl::Now());
  }
  workers_.clear();
  ps_.clear();
}

}  // namespace coxswain::chaos
