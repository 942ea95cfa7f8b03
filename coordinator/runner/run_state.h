// What a checkpoint remembers of a run beside its variables, so that it can be resumed; and the
// tracker that keeps it up to date.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/model/bootstrap.h"
#include "coordinator/runner/data_position.h"
#include "coordinator/runner/epoch_sizes.h"
#include "coordinator/runner/meter.h"
#include "coxswain/checkpoint.h"
#include "coxswain/tensor.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/data/stream/followed_files.h"
#include "runtime/data/ticket.h"

namespace coxswain::runner {

// What train.reduce_on_plateau has come to.
struct Plateau {
  double factor = 1;  // of the learning rates
  std::optional<double> best;
  std::string best_of = {};              // as RunState's
  int64_t evaluations_without_gain = 0;  // since the last one, or since rates were made smaller
};

// From this position in the data on, all learning rates are multiplied by the factor.
struct RateChange {
  DataPosition from;
  double factor = 1;
};

// The metrics of the examples with one value of a feature (evaluate.slices).
struct SliceMetrics {
  std::string feature;
  std::optional<std::string> value;  // none: the values that have no slice of their own
  int64_t examples = 0;
  std::map<std::string, double> metrics;  // NaN: not defined
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
  // Of a word2vec: what the metrics are of ("word_pairs", "analogy_questions") and what was left
  // out because a word is out of the vocabulary ("word_pairs_skipped", ...).
  std::map<std::string, int64_t> counts = {};
  // Why a metric that is not a number cannot be one; for people, and not kept in checkpoints.
  std::map<std::string, std::string> undefined = {};
  double rate_factor = 1;  // of the learning rates, until then; see Plateau
  std::map<std::string, model::Interval> intervals = {};  // of metrics, where the job asks for them
  std::vector<SliceMetrics> slices = {};  // of the last one alone; not kept in checkpoints
};

// What was counted about failures, closures and checkpoints.
struct RunCounters {
  FailureStats failures;
  CheckpointStats checkpoints;
  uint64_t retried = 0;
  void Add(const RunCounters& other);
};

// Files that came together while the job ran (dataset.follow): an epoch of it.
struct FollowedEpoch {
  int64_t examples = 0;
  std::vector<data::FollowedFile> files;
  std::string side_tables =
      {};  // once it has begun, as RunState::side_tables; older ones do not say
};

struct RunState {
  // What the position means; a resumed run must have the same.
  uint64_t data_fingerprint = 0;
  int64_t batch_size = 0;
  uint64_t seed = 0;
  int64_t steps_per_function = 1;
  int64_t replicas = 0;     // batches of an update, where these are of steps; else 0
  bool free_steps = false;  // and they are applied as they come
  bool each_alone = false;  // or each batch is an update after all, in its turn
  // The gradients of an update's batches are summed rather than averaged. Older ones do not say.
  std::optional<bool> summed;
  // The model that the job was started from (--init-from), which says what ids there are; empty:
  // none. Older ones do not say.
  std::string init_from;

  // Behind the last training closure that is over. Those that are not are in the manifest.
  DataPosition position;
  // Of those before it, what steps with backups did without and what was not trained on since.
  std::vector<Ticket> returned;
  std::vector<FollowedEpoch> followed;  // by epoch; empty for a job whose files are all there
  // Names the side tables of a job that follows, those of its newest epoch (data::SideTableFiles);
  // empty: none.
  std::string side_tables;
  // Steps after which those of the job (train.steps) were over within an update of several batches,
  // in their order: a job that goes on with more begins another update there. Older ones do not
  // say.
  std::vector<int64_t> short_updates = {};
  // Epochs that are trained, evaluated and judged by early stopping.
  int64_t epochs_finished = 0;
  bool stopped_early = false;
  // The job's last checkpoint: its values are those that the job ends with, the best ones after
  // early stopping.
  bool finished = false;
  // Not empty: the job was ending with this error; the checkpoint is no good to go on from.
  std::string failed;
  // Of closures that failed and were left out.
  int64_t steps_left_out = 0, examples_left_out = 0, closures_left_out = 0;
  TrainingMeter::Memory meter;  // its steps and examples follow from the position
  double evaluate_seconds = 0;
  std::vector<Evaluation> evaluations;
  // Early stopping.
  std::optional<double> best;
  std::string best_of = {};  // the metric and the examples; empty: not known, in older ones
  int64_t evaluations_without_gain = 0;
  std::string best_file;  // in the directory of checkpoints; empty: none
  Plateau plateau;
  std::vector<RateChange> rate_changes = {};  // in their order; older ones do not say

  int64_t resumes = 0;
  RunCounters counters;
};

// By what the learning rates of a step are multiplied whose examples begin here (rates.cc).
double RateFactorAt(const RunState& state, const DataPosition& at);

// How many updates of `batches` this number of steps makes. The last one of an epoch, and those
// that the state says, may have fewer.
int64_t UpdatesOf(const RunState& state, int64_t steps, int64_t batches, int64_t steps_per_epoch);

std::string ToJson(const RunState& state);
// Errors: InvalidArgument when it is no state of a job, saying what is wrong.
absl::StatusOr<RunState> ParseRunState(const std::string& json);
// The state that goes on from a checkpoint, which is one of those that were written: it could not
// yet count itself. Errors: those of ParseRunState.
absl::StatusOr<RunState> StateBehind(const checkpoint::Manifest& manifest);

// Training closures that failed and were left out.
struct LeftOut {
  int64_t closures = 0;  // of all sessions
  int64_t of = 0;        // that are over, these among them
  absl::Status first;    // of this session: the error of the first one; OK for none
};

// Follows a run. Thread-safe.
//
// OnClosure and ToJson are called on the controller's loop, where checkpoints are described too: so
// each training closure is either over, and the position is behind it, or in the manifest.
class RunTracker {
 public:
  // `errors_end_job`: a closure that fails is not left out.
  RunTracker(RunState state, EpochSizes sizes, bool errors_end_job)
      : errors_end_job_(errors_end_job), sizes_(std::move(sizes)) {
    meter_.Restore(state.meter);
    state_ = std::move(state);
  }

  // The next epoch has come; before anything of it is scheduled.
  void AddEpoch(FollowedEpoch epoch);
  // A training closure is over.
  void OnClosure(const Ticket& ticket, const absl::StatusOr<std::vector<Tensor>>& results);
  // Aborted once a loss was no number.
  absl::Status failure() const;
  // What failed and was left out.
  LeftOut left_out() const;
  // Whether something was, and this was not asked since.
  bool FirstLeftOutIsNew();

  RunState state() const;
  double rate_factor() const;  // see Plateau
  template <typename Change>
  void Update(Change change) {
    absl::MutexLock lock(&mu_);
    change(&state_);
  }
  // What this session has counted so far.
  void SetSession(const RunCounters& counters);
  // Of all sessions.
  RunCounters counters() const;
  TrainingMeter& meter() { return meter_; }
  const TrainingMeter& meter() const { return meter_; }
  // Closures of training that are over, this session's.
  int64_t completed() const;
  // Tickets that steps with backups did without, at most so many; they are to be scheduled again.
  // They are of one epoch.
  std::vector<Ticket> TakeReturned(int64_t most);
  // Also those that a checkpoint had.
  void GiveBack(const std::vector<Ticket>& tickets);
  // How often a step did without a closure, this session's; and whether some wait to be taken.
  int64_t surplus() const;
  bool AwaitReturned(absl::Duration most) const;

  // For the manifest.
  std::string ToJson() const;

 private:
  int64_t StepsOf(int64_t examples) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return (examples + state_.batch_size - 1) / state_.batch_size;
  }

  const bool errors_end_job_;
  TrainingMeter meter_;
  mutable absl::Mutex mu_;
  EpochSizes sizes_ ABSL_GUARDED_BY(mu_);
  RunState state_ ABSL_GUARDED_BY(mu_);
  RunCounters session_ ABSL_GUARDED_BY(mu_);
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  absl::Status first_left_out_ ABSL_GUARDED_BY(mu_);
  bool told_left_out_ ABSL_GUARDED_BY(mu_) = false;
  int64_t completed_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t surplus_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<Ticket> waiting_ ABSL_GUARDED_BY(mu_);  // of state_.returned
};

// The state that a resumed run begins with: as the manifest's, but the position is behind all of
// its closures, and the meter has what these will not count again.
RunState StateToResume(RunState state, const std::vector<Ticket>& pending, const EpochSizes& sizes);
// What early stopping has seen so far counts no more.
void ForgetBestValues(RunState* state);
// What early stopping and the plateau go by now (RunState::best_of; empty: there is none). Forgets
// what was the best by another metric or on other examples, and returns a note for each.
std::vector<std::string> ForgetOtherScores(const std::string& stopping, const std::string& plateau,
                                           RunState* state);

}  // namespace coxswain::runner
