// From the job to its functions (Prepare), the run (Run, Conclude), epochs with their evaluations,
// and the result.
#include "coordinator/runner/runner.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/model/saved_inputs.h"
#include "coordinator/runner/data_checks.h"
#include "coordinator/runner/error_summary.h"
#include "runtime/base/logging.h"
#include "runtime/base/mistake.h"
#include "runtime/base/shell.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/data/dataset_options.h"
#include "runtime/data/ticket.h"

namespace coxswain::runner {
namespace {

constexpr absl::Duration kProgressInterval = absl::Milliseconds(200);
constexpr int kCountersEvery = 5;  // intervals
// With streamed data: one that a worker trains on, one that it reads ahead, and one that is free.
constexpr int64_t kGroupsPerWorker = 3;
constexpr int64_t kMostQueued = 1 << 17;
constexpr int64_t kEndless = int64_t{1} << 62;  // steps

data::DatasetOptions MakeDatasetOptions(const job::JobSpec& job, bool follows) {
  data::DatasetOptions options;
  options.spec = follows ? SpecBeforeFiles(job.dataset) : job.dataset;
  options.batch_size = job.train.batch_size;
  options.epochs = job.train.epochs;
  return options;
}

absl::Status WrongJob(absl::string_view what) {
  return WithDetail(absl::InvalidArgumentError(absl::StrCat("cannot resume: ", what)),
                    {ErrorCause::kConfiguration, false, "", 0});
}

// Calls `tick` every interval on a thread of its own until destroyed.
class Ticker {
 public:
  explicit Ticker(std::function<void()> tick) {
    thread_ = std::thread([this, tick = std::move(tick)] {
      while (!stop_.WaitForNotificationWithTimeout(kProgressInterval)) tick();
    });
  }
  ~Ticker() {
    stop_.Notify();
    thread_.join();
  }

 private:
  absl::Notification stop_;
  std::thread thread_;
};

}  // namespace

JobRunner::JobRunner(Cluster cluster, job::JobSpec job, RunEvents events,
                     CheckpointManager* checkpoints)
    : cluster_(cluster),
      job_(std::move(job)),
      events_(std::move(events)),
      checkpoints_(checkpoints),
      strategy_(cluster, {.compute = job_.train.compute,
                          .device = job_.train.device,
                          .deterministic_ops = job_.train.deterministic,
                          .consistency = job_.train.consistency,
                          .ema_decay = job_.train.ema ? job_.train.ema->decay : 0,
                          .tell_kept_shards = false}),
      best_values_(&strategy_, checkpoints == nullptr ? "" : checkpoints->options().directory,
                   checkpoints == nullptr ? "" : checkpoints->options().job,
                   [this] { return SaveCheckpoint(); }) {}

JobRunner::~JobRunner() = default;

absl::Status JobRunner::CheckUsable(const checkpoint::Manifest& manifest) {
  const auto state = ParseRunState(manifest.job_state);
  if (!state.ok()) {
    return Annotate(state.status(), checkpoint::CheckpointName(manifest.number));
  }
  if (state->failed.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(checkpoint::CheckpointName(manifest.number),
                   ": the job was failing when it was written: ", state->failed));
}

absl::Status JobRunner::Prepare() {
  if (checkpoints_ != nullptr) RETURN_IF_ERROR(checkpoints_->TryDirectory(cluster_));
  if (events_.on_progress) events_.on_progress({Progress::Phase::kLoading});
  if (follows()) {
    epochs_.arrivals = std::make_unique<Arrivals>(&strategy_, job_);
    RETURN_IF_ERROR(epochs_.arrivals->Check());
  }
  const bool resuming = checkpoints_ != nullptr && checkpoints_->found();
  // What was begun goes on, and a saved model was trained already.
  if (!resuming && job_.dataset.learned().empty()) RETURN_IF_ERROR(CheckTestFiles(job_));
  RETURN_IF_ERROR(LoadData());
  RunState state;
  std::vector<Ticket> returned;
  if (resuming) {
    ASSIGN_OR_RETURN(state, StateBehind(checkpoints_->manifest()));
    RETURN_IF_ERROR(CheckResumes(state));
    RETURN_IF_ERROR(checkpoints_->Restore(&strategy_));
    std::vector<Ticket> pending;
    for (const checkpoint::CheckpointClosure& closure : checkpoints_->manifest().closures) {
      if (closure.has_ticket) pending.push_back(closure.ticket);
    }
    for (const Ticket& ticket : state.returned) {
      if (std::find(pending.begin(), pending.end(), ticket) == pending.end()) {
        returned.push_back(ticket);
      }
    }
    pending.insert(pending.end(), returned.begin(), returned.end());
    if (follows()) RETURN_IF_ERROR(ResumeArrivals(state, pending));
    state = StateToResume(std::move(state), pending, epochs_.sizes);
    ForgetScores(&state);
    next_ = state.position;
    steps_before_ = state.meter.steps;
    failed_before_ = state.closures_left_out;
    finished_before_ = state.finished;
    state.finished = false;
    closures_before_ = epochs_.sizes.ClosuresBefore(next_, state.steps_per_function) -
                       failed_before_ - static_cast<int64_t>(pending.size());
  }
  strategy_.set_learning_rate_factor(state.plateau.factor);
  state.data_fingerprint = data().fingerprint();
  const data::SideTableFilesPtr tables = data().side_tables().Get();
  state.side_tables = follows() && tables != nullptr ? tables->version : "";
  if (!resuming && !init_from_.directory.empty()) {
    std::error_code ignored;
    state.init_from = std::filesystem::absolute(init_from_.directory, ignored).string();
  }
  state.batch_size = job_.train.batch_size;
  state.seed = job_.train.seed;
  state.steps_per_function = job_.train.steps_per_function;
  state.replicas = replicas();
  state.each_alone = job_.train.consistency.reduce == GradientReduction::kNone;
  state.free_steps = free_steps();
  state.summed = summed();
  tracker_ = std::make_shared<RunTracker>(std::move(state), epochs_.sizes,
                                          job_.train.on_error != ErrorPolicy::kIgnore);
  tracker_->GiveBack(returned);
  return MakeModel(resuming);
}

absl::Status JobRunner::LoadData() {
  data::DatasetOptions options = MakeDatasetOptions(job_, follows());
  options.on_index = [this](int64_t done, int64_t all) {
    if (!events_.on_progress) return;
    Progress reading{Progress::Phase::kLoading};
    reading.bytes = done;
    reading.total_bytes = all;
    events_.on_progress(reading);
  };
  ASSIGN_OR_RETURN(dataset_, strategy_.CreatePerWorkerDataset(options));
  epochs_.sizes =
      follows() ? EpochSizes::Listed(job_.train.batch_size)
                : EpochSizes::Same(job_.train.batch_size, data().num_examples(Part::kTraining));
  // A saved model was trained already: its data needs no balance.
  if (job_.dataset.learned().empty() && !follows())
    RETURN_IF_ERROR(CheckTrainingData(job_, data()));
  ASSIGN_OR_RETURN(word_tests_, ReadWordTests(job_, data()));
  if (events_.on_data) events_.on_data(job_, data());
  return absl::OkStatus();
}

absl::Status JobRunner::MakeModel(bool resuming) {
  job::JobSpec complete = job_;
  if (!endless()) job::CompleteSchedules(UpdatesOf(total_steps()), &complete);
  std::shared_ptr<model::WarmSource> warm;  // the model keeps what asks it
  model::ClusterVariables::EarlierSteps earlier_steps;
  if (!init_from_.directory.empty() && !resuming) {
    ASSIGN_OR_RETURN(auto source, model::WarmSource::Open(init_from_, job_, data()));
    warm = std::make_shared<model::WarmSource>(std::move(source));
    earlier_steps = [warm](const VariableInfo& info) { return warm->EarlierSteps(info); };
  }
  auto model = model::Model::Create(&strategy_, complete, dataset_, std::move(earlier_steps));
  if (!model.ok() && resuming && absl::IsInvalidArgument(model.status())) {
    return WrongJob(model.status().message());  // a variable that is not the checkpoint's
  }
  // More rows than parameter servers can hold: what the job says is to be made smaller.
  if (absl::IsResourceExhausted(model.status())) return AsMistake(model.status());
  RETURN_IF_ERROR(model.status());
  model_ = *std::move(model);
  if (!resuming) {
    ASSIGN_OR_RETURN(const auto rows, model::TakeRowsOfFiles(job_, data(), &strategy_));
    for (const model::InitialRows& of_table : rows) {
      if (events_.on_initial_rows) events_.on_initial_rows(of_table);
    }
  }
  if (warm) {
    ASSIGN_OR_RETURN(const model::WarmStart taken, warm->TakeOver(&strategy_));
    if (events_.on_warm_start) events_.on_warm_start(taken);
  }
  if (const std::vector<std::string> left = strategy_.LayoutLeftOver(); !left.empty()) {
    return WrongJob(absl::StrCat("the checkpoint has variables that the job lacks: ",
                                 absl::StrJoin(left, ", ")));
  }
  return absl::OkStatus();
}

absl::Status JobRunner::CheckResumes(const RunState& state) const {
  const auto same = [&](const char* key, uint64_t wanted, uint64_t found) {
    if (wanted == found) return absl::OkStatus();
    return WrongJob(absl::StrCat(job_.Where(key), ": ", key, ": the checkpoint was written with ",
                                 wanted, ", found ", found));
  };
  RETURN_IF_ERROR(same("train.batch_size", static_cast<uint64_t>(state.batch_size),
                       static_cast<uint64_t>(job_.train.batch_size)));
  RETURN_IF_ERROR(same("train.seed", state.seed, job_.train.seed));
  RETURN_IF_ERROR(CheckResumesUpdates(state));
  if (state.data_fingerprint == data().fingerprint()) return absl::OkStatus();
  // Other ids are other data, though the files are the same.
  if (!state.init_from.empty() && init_from_.directory.empty()) {
    return WrongJob(
        absl::StrCat("the job was started from a model, by whose ids its data is read; ",
                     "wanted --init-from ", ShellQuoted(state.init_from), " again, found none"));
  }
  return WrongJob(absl::StrCat(
      job_.Where("dataset"),
      ": the data is not what the checkpoint was trained on; wanted the same files, features, ",
      "split and seed, ",
      state.init_from.empty()
          ? ""
          : absl::StrCat("the model that the job was started from, ", state.init_from, ", "),
      "and --count-visits where it was given before"));
}

// What an update is. How much later than others it may come (`async` and `bounded`, backups), and
// what is made of late gradients, are for a job to change, as its learning rate is.
absl::Status JobRunner::CheckResumesUpdates(const RunState& state) const {
  const auto say = [](int64_t n, bool free, bool alone, bool summed) {
    return n == 0 ? std::string("no synchronous steps")
                  : absl::StrCat(free ? "updates as they come, " : "synchronous steps ", "of ", n,
                                 " batches", summed ? ", summed" : "",
                                 alone ? ", each an update of its own" : "");
  };
  const bool alone = job_.train.consistency.reduce == GradientReduction::kNone;
  const std::string wanted = say(state.replicas, state.free_steps, state.each_alone,
                                 state.summed.value_or(summed())),
                    found = say(replicas(), free_steps(), alone, summed());
  if (wanted == found) return absl::OkStatus();
  return WrongJob(absl::StrCat(job_.Where("train.consistency"), ": train.consistency: the ",
                               "checkpoint was written with ", wanted, ", found ", found));
}

absl::Status JobRunner::ResumeArrivals(const RunState& state, const std::vector<Ticket>& pending) {
  for (const FollowedEpoch& epoch : state.followed) epochs_.sizes.Add(epoch.examples);
  const std::string& directory = checkpoints_->options().directory;
  return epochs_.arrivals->Resume(state, pending,
                                  absl::StrCat(directory, "/", model::kInputsFolder));
}

absl::StatusOr<bool> JobRunner::BeginEpoch(int64_t epoch) {
  if (!follows()) return epoch < epochs();
  epochs_.arrivals->Release(epoch);
  const DataPosition begin = std::max(next_, DataPosition{epoch, 0});
  if (!endless() && StepsBefore(begin) >= total_steps()) return false;
  if (!epochs_.arrivals->Has(epoch)) {
    if (events_.on_progress) events_.on_progress({Progress::Phase::kWaiting});
    const absl::StatusOr<bool> more = epochs_.arrivals->Await(
        [this, epoch](FollowedEpoch come) {
          if (events_.on_files) events_.on_files(epoch, come);
          epochs_.sizes.Add(come.examples);
          tracker_->AddEpoch(std::move(come));
        },
        [this] { return interrupted_.load(); });
    if (!more.ok()) return WithoutNewFiles(more.status());
    if (!*more) return false;
  }
  if (const absl::Status used = UseSideTables(epoch); !used.ok()) return WithoutNewFiles(used);
  ASSIGN_OR_RETURN(const RemoteFunction* train,
                   epochs_.arrivals->TrainFunction(model_.get(), epoch));
  train_ = *train;
  return true;
}

absl::Status JobRunner::UseSideTables(int64_t epoch) {
  const data::Dataset* const read = epochs_.arrivals->Data(epoch);
  if (read == nullptr || read->side_tables().Get() == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(CheckSameVocabularies(job_, data(), *read));
  data().side_tables().Set(read->side_tables().Get());
  // Before a checkpoint names them.
  if (checkpointing_) {
    const absl::Status kept =
        model::UpdateSideTables(data(), job_, checkpoints_->options().directory);
    if (!kept.ok() && !absl::IsNotFound(kept)) {
      LogWarning(
          "the joined tables are not kept beside the checkpoints, of which those from now "
          "on cannot be predicted with before that is done: ",
          kept.message());
    }
  }
  const std::string version = data().side_tables().Get()->version;
  tracker_->Update([&version, epoch](RunState* s) {
    s->side_tables = s->followed[static_cast<size_t>(epoch)].side_tables = version;
  });
  return absl::OkStatus();
}

// All that was scheduled is trained: nothing of it is lost if a checkpoint has it.
absl::Status JobRunner::WithoutNewFiles(absl::Status status) {
  if (absl::IsCancelled(status) || !checkpointing_) return status;
  // Else a job that is started again and again would push out the checkpoints that it has.
  if (closures_scheduled_ == 0) return status;
  const absl::Status saved = SaveCheckpoint();
  const auto detail = GetDetail(status);
  status = absl::Status(
      status.code(),
      absl::StrCat(status.message(), "\n",
                   saved.ok()
                       ? "a checkpoint has all that was trained: --resume goes on from it"
                       : absl::StrCat("no last checkpoint could be written: ", saved.message())));
  return detail ? WithDetail(std::move(status), *detail) : status;
}

absl::StatusOr<RemoteFunction> JobRunner::TrainFunction() {
  if (!train_) {
    ASSIGN_OR_RETURN(train_, model_->DefineTrain());
  }
  return *train_;
}

int64_t JobRunner::total_steps() const {
  if (endless()) return kEndless;
  return job_.train.steps > 0 ? job_.train.steps : job_.train.epochs * dataset_.steps_per_epoch();
}

Part JobRunner::FinalPart() const {
  return data().num_examples(Part::kTest) > 0 ? Part::kTest : job_.evaluate.part;
}

absl::StatusOr<JobResult> JobRunner::Train() {
  absl::StatusOr<JobResult> result = Run();
  // Of what is followed only the test part has a saved index.
  const proto::DatasetSpec indexed = follows() ? SpecBeforeFiles(job_.dataset) : job_.dataset;
  if (!result.ok()) {
    result = WithoutStaleIndex(result.status(), indexed);
  } else {
    WithoutStaleIndex(tracker_->left_out().first, indexed).IgnoreError();
  }
  const bool interrupted = interrupted_.load() && absl::IsCancelled(result.status());
  if (interrupted && saved_interrupted_) RETURN_IF_ERROR(*saved_interrupted_);
  if (interrupted && checkpointing_ && !saved_interrupted_) RETURN_IF_ERROR(SaveInterrupted());
  // What it waited for did not come.
  const auto detail = GetDetail(result.status());
  if (interrupted_.load() && !result.ok() && detail && detail->cause == ErrorCause::kUnreachable) {
    resumable_ = HasCheckpoint();
  }
  return result;
}

int64_t JobRunner::ClosuresPerWorker() const {
  const int64_t busy = 4 * job_.train.closures_in_flight;
  if (follows()) return std::max(busy, kMostQueued / std::max(1, cluster_.num_workers()));
  const int64_t group = data().group_size();
  if (group == 0) return busy;
  // Where data is streamed each worker trains on rows of its own, and knows what it reads next.
  const int64_t closure =
      job_.train.batch_size * std::max<int64_t>(1, job_.train.steps_per_function);
  const int64_t workers = std::max(1, cluster_.num_workers());
  return std::max(busy, std::min(kGroupsPerWorker * (group / closure + 1), kMostQueued / workers));
}

absl::StatusOr<JobResult> JobRunner::Run() {
  JobResult result;
  result.job = job_.name;
  RETURN_IF_ERROR(TrainFunction().status());
  CoordinatorOptions options;
  options.seed = job_.train.seed;
  options.on_error = job_.train.on_error;
  // Enough to keep every worker busy, few enough that an interrupt drains quickly.
  options.queue_size = 1;
  options.queue_per_worker = ClosuresPerWorker();
  // The step that is under way and the next two, which are with the workers already.
  if (in_steps()) {
    options.queue_size = 3 * (replicas() + job_.train.consistency.backup);
  }
  {
    ClusterCoordinator coordinator(strategy_, options);
    RETURN_IF_ERROR(Begin(&coordinator));
    const absl::Status trained = TrainEpochs(&coordinator, &result);
    TellLeftOut(/*trained=*/true);
    RETURN_IF_ERROR(trained);
  }
  // A job that was finished and had nothing left to train has its last checkpoint, and that has the
  // best values. To write them again would begin another one.
  const bool finished = finished_before_ && closures_scheduled_ == 0;
  if (!finished) {
    const absl::Status restored =
        best_values_.Restore(tracker_->state().best_file, tracker_->meter().Read().steps);
    if (absl::IsNotFound(restored) || absl::IsDataLoss(restored)) {
      LogWarning(restored.message(), "; the model has the last values");
      tracker_->Update(ForgetBestValues);
    } else {
      RETURN_IF_ERROR(restored);
    }
  }
  if (checkpointing_ && !finished) {
    // Whatever comes now, what was trained is there.
    tracker_->Update([](RunState* s) { s->finished = true; });
    if (events_.on_progress) events_.on_progress({Progress::Phase::kLastCheckpoint});
    result.last_checkpoint = SaveCheckpoint();
  }
  RETURN_IF_ERROR(Conclude(&result));
  return result;
}

absl::Status JobRunner::Conclude(JobResult* result) {
  result->evaluations = tracker_->state().evaluations;
  if (job_.evaluate.enabled) {
    if (events_.on_progress) events_.on_progress({Progress::Phase::kEvaluating});
    ASSIGN_OR_RETURN(Evaluation last, EvaluatePart(FinalPart(), /*sliced=*/true));
    // Early stopping has shown the last epoch already.
    const bool shown =
        !result->evaluations.empty() && result->evaluations.back().epoch == last.epoch;
    if (!shown && events_.on_evaluation) events_.on_evaluation(last);
    result->metrics = last.metrics;
    result->intervals = last.intervals;
    result->slices = last.slices;
    result->evaluated_part = last.part;
    result->evaluated_examples = last.examples;
    result->evaluations.push_back(last);
    if (job_.evaluate.popularity_baseline && model_->ranks()) {
      ASSIGN_OR_RETURN(result->baseline, PopularityBaseline(FinalPart()));
    }
  }
  if (!job_.evaluate.show.empty() && model_->can_recommend()) {
    ASSIGN_OR_RETURN(result->suggestions, Recommend(job_.evaluate.show, job_.evaluate.show_top));
  }
  return FillIn(result);
}

absl::Status JobRunner::Begin(ClusterCoordinator* coordinator) {
  coordinator->set_observer([tracker = tracker_](const Ticket& ticket, const auto& results) {
    tracker->OnClosure(ticket, results);
  });
  if (checkpoints_ == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(auto pending, RunPending(coordinator));
  closures_scheduled_ += static_cast<int64_t>(pending.size());
  RETURN_IF_ERROR(
      checkpoints_->Start(cluster_, [tracker = tracker_] { return tracker->ToJson(); }));
  checkpointing_ = true;
  return absl::OkStatus();
}

void JobRunner::ShowProgress(int64_t epoch, bool trained) const {
  if (!events_.on_progress) return;
  const TrainingMeter::Reading r = tracker_->meter().Read();
  Progress p;
  p.trained = trained;
  p.epoch = epoch + 1;
  p.epochs = job_.train.steps > 0 || follows() ? 0 : epochs();
  p.steps = r.steps;
  p.total_steps = endless() ? 0 : total_steps();
  p.loss = r.recent_loss;
  p.examples = r.examples;
  p.seconds = r.seconds;
  p.updates = UpdatesOf(r.steps);
  p.rate_factor = tracker_->rate_factor();
  if (r.seconds > 0) p.examples_per_second = static_cast<double>(r.examples) / r.seconds;
  if (r.steps > 0 && !endless()) {
    p.seconds_left =
        static_cast<double>(p.total_steps - r.steps) * r.seconds / static_cast<double>(r.steps);
  }
  events_.on_progress(p);
}

void JobRunner::TellLeftOut(bool trained) {
  // Under fail_fast, and where a number is not finite, the job's own error says it.
  if (job_.train.on_error == ErrorPolicy::kFailFast || !events_.on_left_out) return;
  LeftOut left_out = tracker_->left_out();
  if (left_out.first.ok() || !tracker_->failure().ok()) return;
  if (!trained && !tracker_->FirstLeftOutIsNew()) return;
  if (trained && job_.train.on_error == ErrorPolicy::kCollect) return;  // its error has them all
  left_out.of += closures_before_;
  events_.on_left_out(left_out, trained);
}

void JobRunner::ReadCounters() {
  const ClusterStats stats = cluster_.Stats();
  tracker_->SetSession({stats.failures, stats.checkpoints, stats.closures.retried});
  if (events_.on_counters) events_.on_counters(tracker_->counters(), stats.workers_ready);
}

absl::Status JobRunner::TrainEpochs(ClusterCoordinator* coordinator, JobResult* result) {
  const RunState state = tracker_->state();
  bool stop = state.stopped_early;
  for (int64_t epoch = state.epochs_finished; !stop; ++epoch) {
    ASSIGN_OR_RETURN(const bool there, BeginEpoch(epoch));
    if (!there) break;
    RETURN_IF_ERROR(TrainForAWhile(coordinator, epoch, result));
    while (!stop && StopsWithin(epoch)) {
      evaluated_at_ = StepsBefore(next_);
      ASSIGN_OR_RETURN(stop, EvaluateAndJudge(epoch));
      if (!stop) RETURN_IF_ERROR(TrainForAWhile(coordinator, epoch, result));
    }
    // Which epoch of a job that follows is the last one is known when there is no other.
    const bool last = !follows() && epoch + 1 == epochs();
    if (last || stop) ShowProgress(epoch, /*trained=*/true);
    if (stop) break;
    // train.steps are over in the middle of it: whoever goes on with more has the rest.
    const bool cut = StepsBefore(next_) >= total_steps() && next_.epoch == epoch &&
                     next_.examples < epochs_.sizes.examples(epoch);
    if (cut && (follows() || (finished_before_ && closures_scheduled_ == 0))) break;
    ASSIGN_OR_RETURN(stop, FinishEpoch(cut ? epoch - 1 : epoch, last));
    if (cut) break;
    if (stop && !last) ShowProgress(epoch, /*trained=*/true);
  }
  if (follows()) ShowProgress(next_.epoch, /*trained=*/true);
  return JoinTraining(coordinator);  // of a checkpoint behind the last epoch
}

absl::Status JobRunner::TrainForAWhile(ClusterCoordinator* coordinator, int64_t epoch,
                                       JobResult* result) {
  const std::vector<PsTraffic> before = ReadTraffic(cluster_);
  tracker_->meter().Resume();
  absl::Status trained;
  {
    int ticks = 0;
    const Ticker ticker([&] {
      ShowProgress(epoch);
      TellLeftOut(/*trained=*/false);
      if (++ticks % kCountersEvery == 0) ReadCounters();
    });
    trained = TrainEpoch(coordinator, epoch);
  }
  tracker_->meter().Pause();
  ReadCounters();
  ShowProgress(epoch);
  RETURN_IF_ERROR(trained);
  TellLeftOut(/*trained=*/false);
  AddTraffic(before, ReadTraffic(cluster_), &result->traffic);
  return absl::OkStatus();
}

int64_t JobRunner::NextEvaluation() const {
  const int64_t every = job_.evaluate.every_steps;
  if (every == 0 || !job_.evaluate.enabled) return std::numeric_limits<int64_t>::max();
  // Steps that were left out are not among those that an evaluation counts.
  const std::vector<Evaluation> evaluations = tracker_->state().evaluations;
  const int64_t counted = evaluations.empty() ? 0 : evaluations.back().steps;
  return (std::max(counted, evaluated_at_) / every + 1) * every;
}

bool JobRunner::StopsWithin(int64_t epoch) const {
  const int64_t steps = StepsBefore(next_);
  return next_.epoch == epoch && next_.examples < epochs_.sizes.examples(epoch) &&
         steps < total_steps() &&
         (steps >= NextEvaluation() || tracker_->meter().Read().seconds >= NextEvaluationSeconds());
}

double JobRunner::NextEvaluationSeconds() const {
  const double every = job_.evaluate.every_seconds;
  if (every == 0 || !job_.evaluate.enabled) return std::numeric_limits<double>::infinity();
  const std::vector<Evaluation> evaluations = tracker_->state().evaluations;
  return (evaluations.empty() ? 0 : evaluations.back().train_seconds) + every;
}

absl::Status JobRunner::TrainEpoch(ClusterCoordinator* coordinator, int64_t epoch) {
  const int64_t per_closure = std::max<int64_t>(1, job_.train.steps_per_function);
  const int64_t batch = job_.train.batch_size;
  const int64_t examples = epochs_.sizes.examples(epoch);
  const auto ending = [&] {
    return interrupted_.load() || !tracker_->failure().ok() ||
           (job_.train.on_error == ErrorPolicy::kFailFast && coordinator->failed() > 0);
  };
  next_ = std::max(next_, DataPosition{epoch, 0});
  const int64_t evaluation = NextEvaluation();  // closures are not cut for it
  const double seconds = NextEvaluationSeconds();
  const int64_t closures = closures_scheduled_;
  // One at least, however short the time is.
  const auto overdue = [&] {
    return closures_scheduled_ > closures && tracker_->meter().Read().seconds >= seconds;
  };
  // An interrupt is seen while there is no room for what comes next.
  const auto full = [&] { return !coordinator->HasRoom(kProgressInterval); };
  while (in_steps() && !ending() && !overdue() &&
         (full() || ScheduleStep(coordinator, epoch, evaluation))) {
    continue;
  }
  while (!in_steps() && next_.epoch == epoch && next_.examples < examples && !ending() &&
         StepsBefore(next_) < evaluation && !overdue()) {
    const int64_t steps = std::min(per_closure, total_steps() - StepsBefore(next_));
    if (steps <= 0) break;
    if (full()) continue;
    const Ticket ticket{Part::kTraining, epoch, next_.examples,
                        std::min(examples, next_.examples + steps * batch)};
    coordinator->Schedule(*train_, ticket,
                          static_cast<uint32_t>((ticket.size() + batch - 1) / batch));
    ++closures_scheduled_;
    next_.examples = ticket.end;
  }
  const bool scheduled = next_.examples >= examples && StepsBefore(next_) < total_steps();
  while (!ending() && !coordinator->Done(kProgressInterval)) {
    // What comes now is read while workers train on what they have.
    if (follows() && scheduled) epochs_.arrivals->Prepare(model_.get());
  }
  if (interrupted_.load() && checkpointing_) LetRun(coordinator);
  if (!tracker_->failure().ok() || (interrupted_.load() && !checkpointing_)) coordinator->Cancel();
  return JoinTraining(coordinator);
}

// An epoch's last step may have fewer batches, and so may that before train.steps are over; no
// other one, so that there are as many updates as without backups. For that it waits until it is
// known what the steps before did without.
bool JobRunner::ScheduleStep(ClusterCoordinator* coordinator, int64_t epoch, int64_t evaluation) {
  const int64_t wanted = replicas(), backup = job_.train.consistency.backup;
  const bool over = next_.epoch != epoch || StepsBefore(next_) >= evaluation;
  if (over && StopsWithin(epoch)) return false;  // what went back is taken after the evaluation
  const bool may_return = backup > 0 && !coordinator->Done();
  std::vector<Ticket> step = tracker_->TakeReturned(wanted + backup);
  const std::vector<Ticket> fresh =
      NextBatches(epoch, over ? 0 : wanted + backup - std::ssize(step));
  if (std::ssize(step) + std::ssize(fresh) < wanted && may_return) {
    tracker_->GiveBack(step);
    if (step.empty()) {
      tracker_->AwaitReturned(kProgressInterval / 10);
    } else {
      coordinator->Done(kProgressInterval / 10);
    }
    return true;
  }
  step.insert(step.end(), fresh.begin(), fresh.end());
  if (step.empty()) return backup > 0 && tracker_->AwaitReturned(absl::ZeroDuration());
  const int64_t end = fresh.empty() ? next_.examples : fresh.back().end;
  if (std::ssize(step) < wanted && end < epochs_.sizes.examples(epoch)) {
    tracker_->Update([last = total_steps()](RunState* s) {
      if (s->short_updates.empty() || s->short_updates.back() < last) {
        s->short_updates.push_back(last);
      }
    });
  }
  coordinator->ScheduleStep(*train_, step);
  closures_scheduled_ += std::ssize(step);
  next_.examples = end;
  return true;
}

std::vector<Ticket> JobRunner::NextBatches(int64_t epoch, int64_t most) const {
  const int64_t examples = epochs_.sizes.examples(epoch);
  most = std::min(most, total_steps() - StepsBefore(next_));
  std::vector<Ticket> tickets;
  for (int64_t begin = next_.examples; begin < examples && std::ssize(tickets) < most;) {
    const int64_t end = std::min(examples, begin + job_.train.batch_size);
    tickets.push_back({Part::kTraining, epoch, begin, end});
    begin = end;
  }
  return tickets;
}

int64_t JobRunner::UpdatesOf(int64_t steps) const {
  if (job_.train.consistency.batches_per_update() == 1) return steps;
  return runner::UpdatesOf(tracker_->state(), steps, replicas(), steps_per_epoch());
}

absl::Status JobRunner::JoinTraining(ClusterCoordinator* coordinator) {
  absl::Status joined = coordinator->JoinScheduled();  // who reads the model waits by itself
  RETURN_IF_ERROR(tracker_->failure());
  if (!joined.ok() && !absl::IsCancelled(joined)) {
    return job_.train.on_error == ErrorPolicy::kCollect
               ? ErrorSummary(joined, coordinator->errors(), coordinator->failed())
               : joined;
  }
  if (interrupted_.load()) return absl::CancelledError("interrupted");
  return joined;
}

absl::StatusOr<bool> JobRunner::FinishEpoch(int64_t epoch, bool last) {
  // The last epoch's evaluation is the final one, unless something goes by it: it may be the best
  // one, also when none is due then, and a job that goes on has to know of it.
  const bool due = last ? job_.train.early_stopping || job_.train.reduce_on_plateau
                        : (epoch + 1) % std::max<int64_t>(1, job_.evaluate.every_epochs) == 0;
  if (!job_.evaluate.enabled || !due) {
    tracker_->Update([&](RunState* s) { s->epochs_finished = epoch + 1; });
    return false;
  }
  evaluated_at_ = StepsBefore(next_);
  return EvaluateAndJudge(epoch + 1);
}

absl::StatusOr<bool> JobRunner::EvaluateAndJudge(int64_t epochs_finished) {
  const absl::Time start = absl::Now();
  if (events_.on_progress) events_.on_progress({Progress::Phase::kEvaluating});
  ASSIGN_OR_RETURN(Evaluation evaluation, EvaluatePart(job_.evaluate.part));
  RunState after = tracker_->state();
  ASSIGN_OR_RETURN(const bool stop, ShouldStop(evaluation, &after));
  if (events_.on_evaluation) events_.on_evaluation(evaluation);
  const double rate = after.plateau.factor;
  JudgeRates(evaluation, &after.plateau);
  // All at once: a checkpoint has the evaluation with its consequences, or makes it again.
  tracker_->Update([&](RunState* s) {
    s->evaluations.push_back(evaluation);
    s->best = after.best;
    s->best_of = after.best_of;
    s->evaluations_without_gain = after.evaluations_without_gain;
    s->best_file = after.best_file;
    s->plateau = after.plateau;
    if (after.plateau.factor != rate) s->rate_changes.push_back({next_, after.plateau.factor});
    s->evaluate_seconds += absl::ToDoubleSeconds(absl::Now() - start);
    s->stopped_early = stop;
    s->epochs_finished = epochs_finished;
  });
  tracker_->meter().ResetMean();
  if (after.plateau.factor != rate && !stop) RETURN_IF_ERROR(UseRates());
  return stop;
}

std::optional<double> JobRunner::ScoreOf(const Evaluation& evaluation,
                                         const std::string& metric) const {
  const auto value = evaluation.metrics.find(metric);
  const auto spec = std::find_if(job_.evaluate.metrics.begin(), job_.evaluate.metrics.end(),
                                 [&](const job::MetricSpec& m) { return m.name == metric; });
  if (value == evaluation.metrics.end() || spec == job_.evaluate.metrics.end()) {
    return std::nullopt;
  }
  return spec->kind->higher_is_better ? value->second : -value->second;
}

absl::StatusOr<bool> JobRunner::ShouldStop(const Evaluation& evaluation, RunState* state) {
  if (!job_.train.early_stopping) return false;
  const job::EarlyStopping& rule = *job_.train.early_stopping;
  const std::optional<double> score = ScoreOf(evaluation, rule.metric);
  if (!score) return false;
  // An undefined one is no gain; while there was no other, nothing is known to have been better.
  if (std::isnan(*score) && !state->best) return false;
  const bool best = !state->best || *score > *state->best + rule.min_delta;
  if (best && !std::isnan(*score)) {
    const absl::StatusOr<std::string> kept = best_values_.Keep(evaluation.steps);
    if (!kept.ok() && best_values_.in_memory()) return kept.status();
    if (!kept.ok()) {
      // A disk that is full or away costs no training: the next one that is better is kept.
      LogWarning("the values after ", evaluation.steps,
                 " steps, the best so far, are not kept: ", kept.status().message());
      return false;
    }
    state->best = *score;
    state->best_of = ScoreName(rule.metric);
    state->evaluations_without_gain = 0;
    state->best_file = *kept;
    return false;
  }
  return ++state->evaluations_without_gain >= rule.patience;
}

absl::Status JobRunner::FillIn(JobResult* result) {
  const RunState state = tracker_->state();
  const TrainingMeter::Reading reading = tracker_->meter().Read();
  result->steps = reading.steps;
  result->examples = reading.examples;
  result->bad_rows = data().bad_rows().count;
  result->train_seconds = reading.seconds;
  result->evaluate_seconds = state.evaluate_seconds;
  result->final_loss = reading.recent_loss;
  result->stopped_early = state.stopped_early;
  result->consistency = job_.train.consistency;
  result->deterministic = job_.train.deterministic;
  result->workers = cluster_.num_workers();
  result->parameter_servers = cluster_.num_ps();
  for (const auto& variable : strategy_.variables()) {
    if (!model::IsInternal(*variable)) result->variables.push_back(variable);
  }
  const double steps = static_cast<double>(std::max<int64_t>(1, result->steps - steps_before_));
  for (PsTraffic& t : result->traffic) {
    t = {t.frames / steps, t.bytes_in / steps, t.bytes_out / steps};
  }
  ASSIGN_OR_RETURN(result->updates, ReadUpdates(cluster_, &strategy_, UpdatesOf(result->steps)));
  ReadCounters();
  const RunCounters counters = tracker_->counters();
  result->failures = counters.failures;
  result->checkpoints = counters.checkpoints;
  result->resumes = state.resumes;
  result->updates.lost = counters.failures.updates_lost;
  // What a step did without was scheduled again.
  result->closures.scheduled =
      closures_before_ + failed_before_ + closures_scheduled_ - tracker_->surplus();
  result->closures.completed = closures_before_ + tracker_->completed();
  result->closures.failed = state.closures_left_out;
  result->closures.retried = static_cast<int64_t>(counters.retried);
  if (job_.dataset.example_ids()) {
    ASSIGN_OR_RETURN(result->visitation,
                     model::CheckVisits(&strategy_, dataset_, result->examples));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::runner
