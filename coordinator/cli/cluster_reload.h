// SIGHUP while a job trains: its cluster file is read again, and workers come and go.
//
// Thread model: made and attached on the main thread; the signal's thread does the work.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/cli/interrupt.h"
#include "coxswain/cluster.h"
#include "runtime/cluster/cluster_config.h"

namespace coxswain::cli {

class ClusterReload {
 public:
  // `say` is called with a line or more for people, from the signal's thread too. An empty `file`:
  // there is none, and SIGHUP keeps its meaning. From here on no SIGHUP is lost: one that comes
  // before Attach is answered there.
  ClusterReload(std::string file, std::function<void(const std::string&)> say);

  // The cluster that the file's `config` made; workers that the file has by now are taken in. Its
  // session goes on until both the caller's handle
  // and this object are gone.
  void Attach(const Cluster& cluster, cluster::ClusterConfig config);

 private:
  void OnSignal();
  void Reload() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string file_;
  const std::function<void(const std::string&)> say_;
  absl::Mutex mu_;
  std::optional<Cluster> cluster_ ABSL_GUARDED_BY(mu_);
  cluster::ClusterConfig config_ ABSL_GUARDED_BY(mu_);
  bool signalled_ ABSL_GUARDED_BY(mu_) = false;  // before there was a cluster
  // Ends first, so that the signal's thread is out of here.
  std::optional<HangupScope> signals_;
};

}  // namespace coxswain::cli
