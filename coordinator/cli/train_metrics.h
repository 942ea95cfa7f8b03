// `coxswain train --metrics`: follows a job, and tells Prometheus of it.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "coordinator/cli/commands.h"
#include "coordinator/runner/runner.h"
#include "coxswain/cluster.h"
#include "runtime/metrics/family.h"
#include "runtime/metrics/metrics_endpoint.h"

namespace coxswain::cli {

class TrainMetrics {
 private:
  class Readings;

 public:
  // Without the flag it only follows. Errors: InvalidArgument of a user's mistake, naming the flag
  // and the address.
  static absl::StatusOr<TrainMetrics> Listen(const TrainFlags& flags, const std::string& job);

  // What these tell is told here, too.
  void Follow(runner::RunEvents* events) const;
  void Follow(ClusterOptions* options) const;
  // From now on this process trains.
  void Follow(std::shared_ptr<const runner::RunTracker> tracker) const;

  // Scrapes ask the cluster while it lives.
  class Watch {
   public:
    explicit Watch(std::shared_ptr<Readings> readings) : readings_(std::move(readings)) {}
    Watch(Watch&&) = default;
    ~Watch();

   private:
    std::shared_ptr<Readings> readings_;
  };
  Watch WatchCluster(const Cluster& cluster) const;

  // What a scrape gets.
  metrics::Families Collect() const;

 private:
  std::shared_ptr<Readings> readings_;  // shared: the cluster's thread may outlast the job's
  std::unique_ptr<metrics::MetricsEndpoint> endpoint_;  // ends before what it reads
};

}  // namespace coxswain::cli
