#include "coordinator/cli/cluster_reload.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace coxswain::cli {

ClusterReload::ClusterReload(std::string file, std::function<void(const std::string&)> say)
    : file_(std::move(file)), say_(std::move(say)) {
  if (!file_.empty()) signals_.emplace([this] { OnSignal(); });
}

void ClusterReload::Attach(const Cluster& cluster, cluster::ClusterConfig config) {
  absl::MutexLock lock(&mu_);
  cluster_ = cluster;
  config_ = std::move(config);
  // Who changed the file while the cluster was not complete may have found nobody to tell.
  const auto now = file_.empty() ? config_ : cluster::ReadClusterConfig(file_).value_or(config_);
  const bool changed = now.ps == config_.ps && now.workers != config_.workers;
  if (std::exchange(signalled_, false) || changed) Reload();
}

void ClusterReload::OnSignal() {
  absl::MutexLock lock(&mu_);
  if (cluster_) {
    Reload();
  } else {
    signalled_ = true;
  }
}

void ClusterReload::Reload() {
  const auto stay = [this](absl::string_view why) {
    say_(absl::StrCat(why, "\nSIGHUP: the workers stay as they are"));
  };
  auto config = cluster::ReadClusterConfig(file_);
  if (!config.ok()) return stay(config.status().message());
  if (config->ps != config_.ps) {
    return stay(absl::StrCat(
        file_, ": ps: the parameter servers of a job that runs cannot be changed: it has ",
        absl::StrJoin(config_.ps, ", "), ", found ", absl::StrJoin(config->ps, ", ")));
  }
  if (config->workers == config_.workers) {
    return say_(absl::StrCat("SIGHUP: ", file_, " has the same workers as before"));
  }
  if (absl::Status s = cluster_->UpdateWorkers(config->workers); !s.ok()) return stay(s.message());
  say_(absl::StrCat("SIGHUP: ", file_, " read again, ", config_.workers.size(), " -> ",
                    config->workers.size(), " workers"));
  config_ = *std::move(config);
}

}  // namespace coxswain::cli
