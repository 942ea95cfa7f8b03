// Runs a job on a cluster: reads the data, builds the model, trains, evaluates, saves, reports.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/api/cluster_coordinator.h"
#include "coordinator/api/strategy.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/model/model.h"
#include "coordinator/runner/meter.h"

namespace coxswain {

struct Progress {
  enum class Phase { kLoading, kTraining, kEvaluating, kSaving };
  Phase phase = Phase::kTraining;
  int64_t epoch = 0, epochs = 0;  // epochs 0: the job counts steps
  int64_t steps = 0, total_steps = 0;
  double examples_per_second = 0;
  double loss = 0;  // mean of the last moments
  double seconds_left = 0;
};

// Of one evaluation during or after training.
struct Evaluation {
  int64_t epoch = 0;
  int64_t steps = 0;
  double train_seconds = 0;  // until then
  double loss = 0;           // mean of the training steps since the last one
  std::string part;
  int64_t examples = 0;
  std::map<std::string, double> metrics;
};

struct RunEvents {
  std::function<void(const Progress&)> on_progress;  // a few times a second
  std::function<void(const Evaluation&)> on_evaluation;
};

struct Suggestions {
  std::string group;
  std::vector<std::string> known;  // a few of what it was trained on
  std::vector<std::string> items;  // best first
};

struct JobResult {
  std::string job;
  int64_t steps = 0;
  int64_t examples = 0;
  double train_seconds = 0;
  double evaluate_seconds = 0;
  double final_loss = 0;
  bool stopped_early = false;
  std::map<std::string, double> metrics;   // of the last evaluation
  std::map<std::string, double> baseline;  // popularity, when the job asks for it
  std::string evaluated_part;
  int64_t evaluated_examples = 0;
  std::vector<Evaluation> evaluations;
  std::vector<Suggestions> suggestions;
  DispatcherStats closures;  // of the training alone
  int workers = 0;
  int parameter_servers = 0;
  std::vector<std::shared_ptr<const VariableInfo>> variables;
  // Of the training alone; evaluations between epochs do not count.
  struct PsTraffic {
    double frames_per_step = 0;  // both ways
    double bytes_in_per_step = 0, bytes_out_per_step = 0;
  };
  std::vector<PsTraffic> traffic;
};

// One job on one cluster. Thread model: one thread; Interrupt from any, also from a signal's.
class JobRunner {
 public:
  JobRunner(Cluster cluster, JobSpec job, RunEvents events);
  ~JobRunner();

  // Reads the data and creates the model.
  absl::Status Prepare();
  // Trains, evaluates on the way and at the end.
  // Errors: Cancelled after Interrupt; Aborted when the loss is no longer a number, with the step;
  // those of a closure.
  absl::StatusOr<JobResult> Train();
  // Evaluates what the model holds now, on the test part if there is one.
  absl::StatusOr<Evaluation> Evaluate();
  absl::StatusOr<std::map<std::string, double>> PopularityBaseline(Part part) const;
  // The best `top` items for each group, or for lists of known items.
  absl::StatusOr<std::vector<Suggestions>> Recommend(const std::vector<std::string>& groups,
                                                     int64_t top);
  absl::StatusOr<Suggestions> RecommendFor(const std::vector<std::string>& known, int64_t top);
  // The training function, placed and partitioned.
  absl::StatusOr<RemoteFunction> TrainFunction();

  void Interrupt();

  ParameterServerStrategy* strategy() { return &strategy_; }
  const Dataset& data() const { return dataset_.data(); }
  const JobSpec& job() const { return job_; }

 private:
  absl::Status TrainEpochs(ClusterCoordinator* coordinator, JobResult* result);
  // Schedules one epoch (or what is left of the steps) and joins.
  absl::Status TrainEpoch(ClusterCoordinator* coordinator, int64_t epoch);
  absl::StatusOr<Evaluation> EvaluatePart(Part part);
  Part FinalPart() const;
  absl::StatusOr<bool> ShouldStop(const Evaluation& evaluation);
  absl::Status CheckCanRecommend() const;
  absl::StatusOr<std::vector<Suggestions>> Score(const std::vector<std::vector<int64_t>>& known,
                                                 int64_t top);
  absl::Status KeepBest();
  absl::Status RestoreBest();
  int64_t total_steps() const;

  Cluster cluster_;
  const JobSpec job_;
  RunEvents events_;
  ParameterServerStrategy strategy_;
  PerWorkerDataset dataset_;
  std::unique_ptr<Model> model_;
  std::map<Part, RemoteFunction> evaluate_;
  std::optional<RemoteFunction> train_;
  std::optional<RemoteFunction> score_;
  TrainingMeter meter_;
  std::atomic<bool> interrupted_{false};
  int64_t steps_scheduled_ = 0;
  // Early stopping.
  std::optional<double> best_;
  int64_t evaluations_without_gain_ = 0;
  std::vector<Tensor> best_values_;
};

}  // namespace coxswain
