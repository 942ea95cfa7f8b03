#include "coordinator/cli/train_metrics.h"

#include <cstdio>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "coordinator/api/wait.h"
#include "coordinator/cli/train_families.h"
#include "coordinator/core/controller.h"
#include "runtime/base/status.h"
#include "runtime/config/yaml_reader.h"

namespace coxswain::cli {
namespace {

// A scrape waits for the controller's loop no longer than this.
constexpr absl::Duration kMostWait = absl::Seconds(1);

}  // namespace

// Thread-safe.
class TrainMetrics::Readings {
 public:
  explicit Readings(std::string job) { reading_.job = std::move(job); }

  void OnProgress(const runner::Progress& progress) {
    absl::MutexLock lock(&mu_);
    reading_.progress = progress;
    if (progress.phase != runner::Progress::Phase::kTraining) return;
    reading_.epoch = progress.epoch;
    reading_.epochs = progress.epochs;
    reading_.total_steps = progress.total_steps;
  }
  void OnEvaluation(const runner::Evaluation& evaluation) {
    absl::MutexLock lock(&mu_);
    ++reading_.evaluated;
    reading_.evaluations[evaluation.part] = evaluation;
  }
  void OnEvent(const ClusterEvent& event) {
    if (event.kind != ClusterEvent::Kind::kRecovered) return;
    absl::MutexLock lock(&mu_);
    ++reading_.rollbacks;
  }
  void SetTracker(std::shared_ptr<const runner::RunTracker> tracker) {
    absl::MutexLock lock(&mu_);
    reading_.begun = tracker->meter().Read();
    tracker_ = std::move(tracker);
  }
  // Waits for a scrape that asks it.
  void SetCluster(std::optional<Cluster> cluster) {
    absl::MutexLock lock(&cluster_mu_);
    // Not by assignment: a cluster is a handle that is never empty.
    cluster_.reset();
    if (cluster) cluster_.emplace(*std::move(cluster));
  }

  metrics::Families Collect() {
    std::optional<core::Controller::Stats> stats;
    int parameter_servers = 0;
    {
      absl::MutexLock lock(&cluster_mu_);
      if (cluster_) {
        core::Controller* const controller = cluster_->controller();
        auto answer = AskForValue<core::Controller::Stats>(
            [controller](auto done) { controller->GetStats(std::move(done)); }, kMostWait);
        if (answer.ok()) stats = *std::move(answer);
        parameter_servers = cluster_->num_ps();
      }
    }
    TrainReading reading;
    std::shared_ptr<const runner::RunTracker> tracker;
    {
      absl::MutexLock lock(&mu_);
      reading = reading_;
      tracker = tracker_;
    }
    if (tracker != nullptr) reading.meter = tracker->meter().Read();
    reading.cluster = std::move(stats);
    reading.parameter_servers = parameter_servers;
    return TrainFamilies(reading);
  }

 private:
  absl::Mutex cluster_mu_;  // held while the cluster is asked
  std::optional<Cluster> cluster_ ABSL_GUARDED_BY(cluster_mu_);
  absl::Mutex mu_;
  TrainReading reading_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<const runner::RunTracker> tracker_ ABSL_GUARDED_BY(mu_);
};

TrainMetrics::Watch::~Watch() {
  if (readings_ != nullptr) readings_->SetCluster(std::nullopt);
}

absl::StatusOr<TrainMetrics> TrainMetrics::Listen(const TrainFlags& flags, const std::string& job) {
  TrainMetrics train;
  train.readings_ = std::make_shared<Readings>(job);
  if (flags.metrics.empty()) return train;
  auto endpoint = metrics::MetricsEndpoint::Listen(
      flags.metrics, [readings = train.readings_] { return readings->Collect(); });
  if (!endpoint.ok()) return config::ConfigurationError(endpoint.status().message());
  train.endpoint_ = *std::move(endpoint);
  if (!flags.quiet) {
    std::fprintf(stderr, "metrics on http://%s/metrics\n", train.endpoint_->address().c_str());
  }
  return train;
}

void TrainMetrics::Follow(runner::RunEvents* events) const {
  events->on_progress = [readings = readings_,
                         then = std::move(events->on_progress)](const runner::Progress& progress) {
    readings->OnProgress(progress);
    if (then) then(progress);
  };
  events->on_evaluation = [readings = readings_, then = std::move(events->on_evaluation)](
                              const runner::Evaluation& evaluation) {
    readings->OnEvaluation(evaluation);
    if (then) then(evaluation);
  };
}

void TrainMetrics::Follow(ClusterOptions* options) const {
  options->on_event = [readings = readings_,
                       then = std::move(options->on_event)](const ClusterEvent& event) {
    readings->OnEvent(event);
    if (then) then(event);
  };
}

void TrainMetrics::Follow(std::shared_ptr<const runner::RunTracker> tracker) const {
  readings_->SetTracker(std::move(tracker));
}

TrainMetrics::Watch TrainMetrics::WatchCluster(const Cluster& cluster) const {
  readings_->SetCluster(cluster);
  return Watch(readings_);
}

metrics::Families TrainMetrics::Collect() const { return readings_->Collect(); }

}  // namespace coxswain::cli
