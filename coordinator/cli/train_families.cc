// The job and its progress; evaluations; the cluster: closures, tasks and checkpoints.
#include "coordinator/cli/train_families.h"

#include <numeric>
#include <utility>

#include "runtime/base/version.h"

namespace coxswain::cli {
namespace {

using metrics::AddCounter;
using metrics::AddGauge;
using metrics::AddSample;
using metrics::Families;
using metrics::Kind;
using Phase = runner::Progress::Phase;

constexpr std::pair<Phase, const char*> kPhases[] = {{Phase::kLoading, "loading"},
                                                     {Phase::kWaiting, "waiting"},
                                                     {Phase::kTraining, "training"},
                                                     {Phase::kEvaluating, "evaluating"},
                                                     {Phase::kSaving, "saving"},
                                                     {Phase::kCheckpointing, "checkpointing"},
                                                     {Phase::kLastCheckpoint, "checkpointing"}};

double Number(int64_t number) { return static_cast<double>(number); }

void AddJob(const TrainReading& r, Families* all) {
  AddSample({{"version", kVersion}, {"job_name", r.job}}, 1,
            metrics::Add(Kind::kGauge, "coxswain_train_info",
                         "Always 1; the program's version and the job's name", all));
  if (!r.progress) return;
  metrics::Family* const phase =
      metrics::Add(Kind::kGauge, "coxswain_train_phase",
                   "1 for what the job does now, by phase; 0 for the others", all);
  for (const auto& [one, name] : kPhases) {
    if (one == Phase::kLastCheckpoint) continue;  // has the name of another one
    const bool now = r.progress->phase == one ||
                     (one == Phase::kCheckpointing && r.progress->phase == Phase::kLastCheckpoint);
    AddSample({{"phase", name}}, now ? 1 : 0, phase);
  }
}

void AddTraining(const TrainReading& r, Families* all) {
  if (!r.meter) return;
  const runner::TrainingMeter::Reading& now = *r.meter;
  AddGauge("coxswain_train_step", "Training steps of the job that are done, in all its sessions",
           Number(now.steps), all);
  AddCounter("coxswain_train_steps_total",
             "Training steps that were done since this process began, each counted once",
             Number(now.steps - r.begun.steps), all);
  AddCounter("coxswain_train_examples_total", "Examples of these steps",
             Number(now.examples - r.begun.examples), all);
  AddCounter("coxswain_train_training_seconds_total",
             "Time of training since this process began, without evaluations and other pauses",
             now.seconds - r.begun.seconds, all);
  if (now.steps > 0) {
    AddGauge("coxswain_train_loss", "Training loss, as a moving mean: the report's final_loss",
             now.recent_loss, all);
  }
  if (r.total_steps > 0) {
    AddGauge("coxswain_train_planned_steps", "Training steps of the whole job, where it says so",
             Number(r.total_steps), all);
  }
  if (r.epoch > 0) AddGauge("coxswain_train_epoch", "The epoch, from 1", Number(r.epoch), all);
  if (r.epochs > 0) {
    AddGauge("coxswain_train_planned_epochs", "Epochs of the whole job, where it says so",
             Number(r.epochs), all);
  }
}

void AddEvaluations(const TrainReading& r, Families* all) {
  AddCounter("coxswain_train_evaluations_total", "Evaluations that were made", Number(r.evaluated),
             all);
  metrics::Family values{"coxswain_train_evaluation",
                         "The last evaluation's metrics, by part of the data; NaN: not defined",
                         Kind::kGauge,
                         {}};
  metrics::Family steps{"coxswain_train_evaluation_step",
                        "Training steps until the last evaluation, by part of the data",
                        Kind::kGauge,
                        {}};
  for (const auto& [part, evaluation] : r.evaluations) {
    for (const auto& [metric, value] : evaluation.metrics) {
      AddSample({{"part", part}, {"metric", metric}}, value, &values);
    }
    AddSample({{"part", part}}, Number(evaluation.steps), &steps);
  }
  all->push_back(std::move(values));
  all->push_back(std::move(steps));
}

void AddClosures(const core::Controller::Stats& stats, Families* all) {
  metrics::Family* const events =
      metrics::Add(Kind::kCounter, "coxswain_train_closures_total",
                   "What became of closures, those of evaluations too; one may count for several "
                   "events, so their sum means nothing",
                   all);
  for (const auto& [event, count] :
       {std::pair<const char*, int64_t>("scheduled", stats.closures.scheduled),
        {"completed", stats.closures.completed},
        {"failed", stats.closures.failed},
        {"retried", stats.closures.retried},
        {"rerun", stats.closures.rerun},
        {"quarantined", stats.failures.quarantined},
        {"timeout", stats.failures.timeouts}}) {
    AddSample({{"event", event}}, Number(count), events);
  }
  AddGauge("coxswain_train_closures_running", "Closures that workers have now",
           Number(stats.running), all);
  AddGauge("coxswain_train_closures_queued", "Closures that wait for a worker",
           Number(stats.queued), all);
}

void AddTasks(const TrainReading& r, const core::Controller::Stats& stats, Families* all) {
  AddGauge("coxswain_train_workers_configured", "Workers of the cluster, as its file names them",
           stats.workers, all);
  AddGauge("coxswain_train_workers_live", "Workers that take closures", stats.workers_ready, all);
  AddGauge("coxswain_train_parameter_servers_configured",
           "Parameter servers of the cluster, as its file names them", r.parameter_servers, all);
  AddGauge("coxswain_train_parameter_servers_live",
           "Parameter servers that are connected and not lost", stats.ps_ready, all);
  metrics::Family* const lost =
      metrics::Add(Kind::kCounter, "coxswain_train_tasks_lost_total",
                   "How often a worker or a parameter server was lost", all);
  AddSample({{"kind", "worker"}}, Number(stats.failures.workers_lost), lost);
  AddSample({{"kind", "ps"}}, Number(stats.failures.ps_lost), lost);
  AddCounter("coxswain_train_tasks_recovered_total",
             "Losses of workers and parameter servers after which the cluster went on",
             Number(stats.failures.recovered), all);
  AddCounter(
      "coxswain_train_recovery_seconds_total",
      "Time from the loss of a worker until it was back, or of parameter servers until steps "
      "ran again, summed",
      std::accumulate(stats.failures.recovery_seconds.begin(),
                      stats.failures.recovery_seconds.end(), 0.0),
      all);
  AddCounter("coxswain_train_rollbacks_total",
             "How often shards went back to a checkpoint, or to initial values, because parameter "
             "servers were lost",
             Number(r.rollbacks), all);
  AddCounter("coxswain_train_updates_lost_total",
             "Updates that checkpoint.on_ps_loss: accept_loss gave up, summed over shards",
             Number(stats.failures.updates_lost), all);
}

void AddCheckpoints(const core::Controller::Stats& stats, Families* all) {
  metrics::Family* const ended = metrics::Add(Kind::kCounter, "coxswain_train_checkpoints_total",
                                              "Checkpoints, by how they ended", all);
  AddSample({{"outcome", "written"}}, Number(stats.checkpoints.written), ended);
  AddSample({{"outcome", "failed"}}, Number(stats.checkpoints.failed), ended);
  AddCounter("coxswain_train_checkpoint_bytes_total",
             "Bytes written for checkpoints, without files that are links to older ones",
             Number(stats.checkpoints.bytes), all);
  AddCounter("coxswain_train_checkpoint_seconds_total",
             "Time from the beginning of each checkpoint until it was visible, summed",
             stats.checkpoints.seconds, all);
  AddCounter("coxswain_train_checkpoint_stall_seconds_total",
             "The part of this time in which a parameter server could run no step",
             stats.checkpoints.stall_seconds, all);
  AddCounter("coxswain_train_shards_moved_total",
             "Shards that moved to another parameter server, for balance",
             Number(stats.checkpoints.shards_moved), all);
  AddCounter("coxswain_train_move_seconds_total",
             "Time in which no step was begun because shards moved", stats.checkpoints.move_seconds,
             all);
  if (!stats.last_checkpoint) return;
  AddGauge("coxswain_train_last_checkpoint_timestamp_seconds",
           "When the last checkpoint of this process was visible, in seconds since 1970",
           absl::ToDoubleSeconds(stats.last_checkpoint->at - absl::UnixEpoch()), all);
  AddGauge("coxswain_train_last_checkpoint_step", "Training steps in it",
           Number(stats.last_checkpoint->steps), all);
  AddGauge("coxswain_train_last_checkpoint_duration_seconds",
           "Time from its beginning until it was visible", stats.last_checkpoint->seconds, all);
}

}  // namespace

Families TrainFamilies(const TrainReading& reading) {
  Families all;
  AddJob(reading, &all);
  AddTraining(reading, &all);
  AddEvaluations(reading, &all);
  if (!reading.cluster) return all;
  AddClosures(*reading.cluster, &all);
  AddTasks(reading, *reading.cluster, &all);
  AddCheckpoints(*reading.cluster, &all);
  return all;
}

}  // namespace coxswain::cli
