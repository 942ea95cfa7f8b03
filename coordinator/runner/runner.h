// Runs a job on a cluster: reads the data, builds the model, trains, evaluates, saves, reports;
// goes on from a checkpoint.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/model/initial_rows.h"
#include "coordinator/model/metrics.h"
#include "coordinator/model/model.h"
#include "coordinator/model/visits.h"
#include "coordinator/model/warm_start.h"
#include "coordinator/model/word_eval.h"
#include "coordinator/runner/arrivals.h"
#include "coordinator/runner/best_values.h"
#include "coordinator/runner/run_state.h"
#include "coordinator/runner/usage.h"
#include "coxswain/checkpoint.h"
#include "coxswain/cluster_coordinator.h"
#include "coxswain/strategy.h"
#include "runtime/checkpoint/manifest.h"

namespace coxswain::runner {

struct Progress {
  enum class Phase {
    kLoading,
    kWaiting,
    kTraining,
    kEvaluating,
    kSaving,
    kCheckpointing,
    kLastCheckpoint
  };
  Phase phase = Phase::kTraining;      // kWaiting: for files
  int64_t epoch = 0, epochs = 0;       // epochs 0: the job counts steps
  int64_t steps = 0, total_steps = 0;  // total_steps 0: nobody knows
  int64_t examples = 0;
  double seconds = 0;              // of training until now
  double examples_per_second = 0;  // in these
  double loss = 0;                 // mean of the last moments
  int64_t updates = 0;             // of each variable, until now
  double rate_factor = 1;          // of the learning rates, see Plateau
  double seconds_left = 0;
  bool trained = false;                // the last of the training
  int64_t bytes = 0, total_bytes = 0;  // of files, while those of a large data set are indexed
};

struct RunEvents {
  std::function<void(const job::JobSpec&, const data::Dataset&)>
      on_data;                                       // once it is read and checked
  std::function<void(const Progress&)> on_progress;  // a few times a second
  std::function<void(const Evaluation&)> on_evaluation;
  // What was counted, in all sessions, and how many workers can run closures: while it trains about
  // once a second, and when an epoch's training is over.
  std::function<void(const RunCounters&, int workers)> on_counters;
  // From here on learning rates are this part of what optimizers and schedules say.
  std::function<void(double factor)> on_rate;
  std::function<void(const model::WarmStart&)> on_warm_start;
  std::function<void(const model::InitialRows&)> on_initial_rows;
  std::function<void(int64_t epoch, const FollowedEpoch&)> on_files;  // have come; epoch from 0
  // Closures failed, which does not end the job, or not yet (train.on_error): soon after the first
  // one, and when training is over, however it ended.
  std::function<void(const LeftOut&, bool trained)> on_left_out;
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
  int64_t bad_rows = 0;  // of the data, that were passed over
  double train_seconds = 0;
  double evaluate_seconds = 0;
  double final_loss = 0;
  bool stopped_early = false;
  std::map<std::string, double> metrics;             // of the last evaluation
  std::map<std::string, model::Interval> intervals;  // of them, when the job asks for them
  std::vector<SliceMetrics> slices;                  // of that evaluation, too
  std::map<std::string, double> baseline;            // popularity, when the job asks for it
  std::string evaluated_part;
  int64_t evaluated_examples = 0;
  std::vector<Evaluation> evaluations;
  std::vector<Suggestions> suggestions;
  // Of the training alone, from its first session on; `rerun` is in failures.
  struct Closures {
    int64_t scheduled = 0, completed = 0, failed = 0, retried = 0;
  };
  Closures closures;
  FailureStats failures;
  int64_t resumes = 0;  // how often the coordinator was lost or interrupted
  CheckpointStats checkpoints;
  // Of the one that is written when training is over; OK without a directory for them.
  absl::Status last_checkpoint;
  UpdateCounts updates;
  // How often training used each example, when that is counted.
  using Visitation = coxswain::model::Visitation;
  std::optional<Visitation> visitation;
  Consistency consistency;
  bool deterministic = false;  // train.deterministic
  int workers = 0;
  int parameter_servers = 0;
  std::vector<std::shared_ptr<const VariableInfo>> variables;
  // A step's, of this session's training alone; evaluations between epochs do not count.
  std::vector<PsTraffic> traffic;
};

// One job on one cluster. Thread model: one thread; Interrupt from any, also from a signal's.
class JobRunner {
 public:
  // With `checkpoints` the job writes some, and goes on from the one that was found there. They
  // must outlive the runner.
  JobRunner(Cluster cluster, job::JobSpec job, RunEvents events,
            CheckpointManager* checkpoints = nullptr);
  ~JobRunner();

  // Before Prepare: training begins with the values of this saved model or checkpoint, unless it is
  // resumed. The job's data set says which ids it keeps (model::KeepIds).
  void InitFrom(model::InitialModel from) { init_from_ = std::move(from); }

  // Whether a job can go on from a checkpoint: for CheckpointManager::Find.
  static absl::Status CheckUsable(const checkpoint::Manifest& manifest);

  // Reads the data and creates the model.
  // Errors: InvalidArgument when the checkpoint is of another job: which key, variable or data.
  absl::Status Prepare();
  // Trains, evaluates on the way and at the end.
  // Errors: Cancelled after Interrupt, once a checkpoint is written if there is a directory for
  // them; Aborted when the loss is no longer a number, with the step; those of a closure, by
  // train.on_error.
  absl::StatusOr<JobResult> Train();
  // After Train was interrupted: there is a checkpoint from which all goes on. Train's error is
  // another one than Cancelled when it is an older one, because tasks that it needs are lost.
  bool resumable() const { return resumable_; }
  // What is trained and evaluated so far; after Prepare.
  TrainingMeter::Reading trained() const { return tracker_->meter().Read(); }
  std::vector<Evaluation> evaluations() const { return tracker_->state().evaluations; }
  // What a trained model is measured on: the test part if there is one, else `evaluate.part`.
  Part FinalPart() const;
  // The part that EvaluatePart measures; nothing where that needs no examples.
  std::optional<Part> ScoredPart(Part part) const;
  // Evaluates what the model holds now.
  absl::StatusOr<Evaluation> EvaluatePart(Part part, bool sliced = false);
  absl::StatusOr<std::map<std::string, double>> PopularityBaseline(Part part) const;
  // The best `top` items for each group of the data.
  absl::StatusOr<std::vector<Suggestions>> Recommend(const std::vector<std::string>& groups,
                                                     int64_t top);
  // The training function, placed and partitioned.
  absl::StatusOr<RemoteFunction> TrainFunction();

  void Interrupt();

  // After Prepare: follows the training, and may outlive the runner.
  std::shared_ptr<const RunTracker> tracker() const { return tracker_; }
  ParameterServerStrategy* strategy() { return &strategy_; }
  const data::Dataset& data() const { return dataset_.data(); }
  const job::JobSpec& job() const { return job_; }

 private:
  // Files come while the job runs; a model that was saved knows what they were.
  bool follows() const { return job_.follow.enabled && job_.dataset.learned().empty(); }
  // Where a followed job goes on.
  absl::Status ResumeArrivals(const RunState& state, const std::vector<Ticket>& pending);
  // Whether there is such an epoch; waits for it where files come while the job runs.
  absl::StatusOr<bool> BeginEpoch(int64_t epoch);
  // From here on an epoch is trained with the side tables of its time: the model that is saved has
  // these, and so have predictions of the checkpoints that come. Errors: those of
  // CheckSameVocabularies.
  absl::Status UseSideTables(int64_t epoch);
  // What the job ends with when files that come cannot be had; writes a last checkpoint.
  absl::Status WithoutNewFiles(absl::Status status);
  absl::StatusOr<std::vector<RemoteValue>> RunPending(ClusterCoordinator* coordinator);
  // Of Prepare: the data set, and what is read beside it; the model, with the values that it begins
  // with.
  absl::Status LoadData();
  absl::Status MakeModel(bool resuming);
  absl::Status CheckResumes(const RunState& state) const;
  absl::Status CheckResumesUpdates(const RunState& state) const;
  absl::StatusOr<JobResult> Run();
  // Schedules what the checkpoint lacks; from here on checkpoints are written.
  absl::Status Begin(ClusterCoordinator* coordinator);
  absl::Status TrainEpochs(ClusterCoordinator* coordinator, JobResult* result);
  // Trains one epoch, or until an evaluation within it is due, and counts what that took.
  absl::Status TrainForAWhile(ClusterCoordinator* coordinator, int64_t epoch, JobResult* result);
  // Schedules what is left of an epoch, or of the steps, or until an evaluation, and joins.
  absl::Status TrainEpoch(ClusterCoordinator* coordinator, int64_t epoch);
  // The number of steps after which there is an evaluation within an epoch.
  int64_t NextEvaluation() const;
  // The seconds of training after which there is one.
  double NextEvaluationSeconds() const;
  bool StopsWithin(int64_t epoch) const;  // the epoch goes on behind an evaluation that is due
  absl::Status JoinTraining(ClusterCoordinator* coordinator);
  bool in_steps() const { return job_.train.consistency.in_steps(); }
  bool free_steps() const {
    return in_steps() && job_.train.consistency.mode != ConsistencyMode::kSync;
  }
  bool summed() const {
    return in_steps() && job_.train.consistency.reduce == GradientReduction::kSum;
  }
  int64_t replicas() const { return in_steps() ? job_.train.consistency.batches() : 0; }
  // Schedules the next synchronous step, if there is one yet. False: all that is to be scheduled
  // before an evaluation or the epoch's end is.
  bool ScheduleStep(ClusterCoordinator* coordinator, int64_t epoch, int64_t evaluation);
  // The next batches of the epoch, at most so many.
  std::vector<Ticket> NextBatches(int64_t epoch, int64_t most) const;
  // How often each variable is updated in this number of steps.
  int64_t UpdatesOf(int64_t steps) const;
  // What follows an epoch's training. True: stop early.
  absl::StatusOr<bool> FinishEpoch(int64_t epoch, bool last);
  // Evaluates; `epochs_finished` are then. True: stop early.
  absl::StatusOr<bool> EvaluateAndJudge(int64_t epochs_finished);
  void ShowProgress(int64_t epoch, bool trained = false) const;
  // On the thread that shows progress meanwhile; `trained`: afterwards.
  void TellLeftOut(bool trained);
  void ReadCounters();
  absl::Status SaveCheckpoint();
  absl::Status SaveInterrupted();
  // Once it is interrupted: what becomes of the closures that are scheduled.
  void LetRun(ClusterCoordinator* coordinator);
  // Whether there is one that a job could go on from.
  bool HasCheckpoint() const;
  // The last evaluation and what the job shows; the model is what it will be.
  absl::Status Conclude(JobResult* result);
  absl::Status FillIn(JobResult* result);
  absl::Status Measure(Part part, model::MetricAccumulator* metrics);
  absl::Status MeasureWords(Evaluation* evaluation);
  // Updates what `state` says of early stopping.
  absl::StatusOr<bool> ShouldStop(const Evaluation& evaluation, RunState* state);
  // Updates what `plateau` says of the learning rates.
  void JudgeRates(const Evaluation& evaluation, Plateau* plateau) const;
  // The training function goes on with the plateau's rates.
  absl::Status UseRates();
  // A training function with other rates than those now; of an epoch, where files come while the
  // job runs. None: there is no such epoch.
  absl::StatusOr<std::optional<RemoteFunction>> DefineWithRate(double factor, int64_t epoch);
  // What an evaluation says of a metric, the higher the better; nothing where it does not.
  std::optional<double> ScoreOf(const Evaluation& evaluation, const std::string& metric) const;
  // What such a score is of, see RunState::best_of.
  std::string ScoreName(const std::string& metric) const;
  // Those in a state that goes on that are of something else, with a warning.
  void ForgetScores(RunState* state) const;
  absl::Status CheckCanRecommend() const;
  absl::StatusOr<std::vector<Suggestions>> Score(const std::vector<std::vector<int64_t>>& known,
                                                 int64_t top);
  int64_t steps_per_epoch() const { return std::max<int64_t>(1, dataset_.steps_per_epoch()); }
  // Steps that are trained in all, as far as that is known.
  bool endless() const { return follows() && job_.train.steps == 0; }
  int64_t total_steps() const;
  int64_t ClosuresPerWorker() const;  // that wait or run
  int64_t epochs() const { return (total_steps() + steps_per_epoch() - 1) / steps_per_epoch(); }
  int64_t StepsBefore(const DataPosition& position) const {
    return epochs_.sizes.StepsBefore(position);
  }

  Cluster cluster_;
  const job::JobSpec job_;
  RunEvents events_;
  CheckpointManager* checkpoints_;
  ParameterServerStrategy strategy_;
  PerWorkerDataset dataset_;
  std::unique_ptr<model::Model> model_;
  std::map<Part, RemoteFunction> evaluate_;
  std::optional<RemoteFunction> train_;
  std::map<int64_t, RemoteFunction> top_items_;  // by how many
  // Checkpoints are described with it, also when the runner is gone.
  std::shared_ptr<RunTracker> tracker_;
  Epochs epochs_;
  BestValues best_values_;
  model::WordTests word_tests_;
  std::atomic<bool> interrupted_{false};
  model::InitialModel init_from_;
  std::optional<absl::Status> saved_interrupted_;  // before what was scheduled had run
  bool checkpointing_ = false, resumable_ = false;
  // The next example to schedule.
  DataPosition next_;
  int64_t closures_before_ = 0, failed_before_ = 0;  // over before this session
  int64_t closures_scheduled_ = 0;
  int64_t steps_before_ = 0, evaluated_at_ = 0;  // trained before this session; scheduled then
  bool finished_before_ = false;
};

}  // namespace coxswain::runner
