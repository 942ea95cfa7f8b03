#include "coordinator/cli/open_cluster.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "coordinator/cli/command_util.h"
#include "coordinator/local/local_tasks.h"
#include "runtime/base/status.h"
#include "runtime/config/yaml_reader.h"
#include "runtime/env/process_limits.h"

namespace coxswain::cli {
namespace {

// Whether --local has what it starts.
absl::Status CheckDaemons() {
  ASSIGN_OR_RETURN(const std::string directory, local::ProgramDirectory());
  for (const char* name : {"coxswain-ps", "coxswain-worker"}) {
    const std::string program = absl::StrCat(directory, "/", name);
    if (access(program.c_str(), X_OK) == 0) continue;
    return config::ConfigurationError(
        absl::StrCat("--local starts ", program, ", which cannot be run: ", std::strerror(errno),
                     "; it has to lie beside coxswain. --cluster FILE names daemons that run "
                     "already, --in-process needs none"));
  }
  return absl::OkStatus();
}

}  // namespace

void AddInputsOf(const Where& where, std::vector<CommandInput>* inputs) {
  const auto add = [inputs](const char* what, const std::string& path) {
    if (!path.empty()) inputs->push_back({what, path});
  };
  add("the cluster file", where.cluster_file);
  add("the secret", where.credentials.secret.file);
}

absl::StatusOr<cluster::ClusterConfig> ReadWhere(const Where& where) {
  if (!where.cluster_file.empty()) {
    auto config = cluster::ReadClusterConfig(where.cluster_file);
    if (!config.ok()) return AsConfiguration(config.status());
    return config;
  }
  if (where.in_process || !where.local.empty()) return cluster::ClusterConfig();
  const char* tf_config = std::getenv("TF_CONFIG");
  if (tf_config == nullptr) {
    return config::ConfigurationError(
        "where is the job to run? give one of --cluster FILE, --local PSxW and --in-process, or "
        "set TF_CONFIG");
  }
  auto config = cluster::ParseTfConfig(tf_config);
  if (!config.ok()) return AsConfiguration(config.status());
  // One command for all tasks, as TensorFlow has it, would make a coordinator of each.
  if (config->type == "worker" || config->type == "ps") {
    return config::ConfigurationError(absl::StrCat(
        "TF_CONFIG says that this is ", config->type, " ", config->index, ": run coxswain-",
        config->type, " here; a coordinator's task has the type chief or coordinator"));
  }
  return config->cluster;
}

absl::StatusOr<Cluster> OpenCluster(const Where& where, cluster::ClusterConfig config,
                                    ClusterOptions options, ClusterReload* reload) {
  options.connect_timeout = absl::Seconds(where.connect_timeout);
  options.threads = where.threads;
  options.secret_file = where.credentials.secret.file;
  options.insecure = where.credentials.secret.insecure;
  options.tls_directory = where.credentials.tls.directory;
  options.tls_name = where.credentials.tls.name;
  RETURN_IF_ERROR(env::CheckThreads("--threads", where.threads));
  if (where.in_process) return Cluster::InProcess(1, 1, options);
  if (!where.local.empty()) {
    ASSIGN_OR_RETURN(const local::LocalSize size, local::ParseLocalSize(where.local));
    RETURN_IF_ERROR(CheckDaemons());
    return Cluster::Local(size.ps, size.workers, options);
  }
  ASSIGN_OR_RETURN(Cluster cluster, Cluster::Connect(config, options));
  if (reload != nullptr && !where.cluster_file.empty()) {
    reload->Attach(cluster, std::move(config));
  }
  return cluster;
}

bool IsElsewhere(const Where& where) { return !where.cluster_file.empty() || !where.local.empty(); }

predict::OpenCluster OpenerOf(const Where& where) {
  if (!IsElsewhere(where)) return nullptr;
  return [where](const job::JobSpec& job) -> absl::StatusOr<Cluster> {
    ASSIGN_OR_RETURN(cluster::ClusterConfig config, ReadWhere(where));
    return OpenCluster(where, std::move(config), MakeClusterOptions(job, where),
                       /*reload=*/nullptr);
  };
}

ClusterOptions MakeClusterOptions(const job::JobSpec& job, const Where& where) {
  ClusterOptions options;
  options.name = job.name;
  options.closures_in_flight = static_cast<int>(job.train.closures_in_flight);
  options.lease = absl::Seconds(job.cluster.lease_seconds);
  options.connect_timeout = absl::Seconds(where.connect_timeout);
  options.threads = where.threads;
  options.recovery.cluster_timeout = absl::Seconds(job.cluster.timeout_seconds);
  options.recovery.quarantine_after = static_cast<int>(job.cluster.quarantine_after);
  options.recovery.closure_timeout = absl::Seconds(job.cluster.closure_timeout_seconds);
  options.recovery.ps_return_timeout = absl::Seconds(job.checkpoint.ps_return_seconds);
  options.recovery.on_ps_loss = job.checkpoint.on_ps_loss;
  return options;
}

}  // namespace coxswain::cli
