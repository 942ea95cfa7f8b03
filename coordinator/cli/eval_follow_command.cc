// The job and the metric that it goes by; the cluster that evaluates; looking until it is to end.
#include "coordinator/cli/eval_follow_command.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "coordinator/cli/command_util.h"
#include "coordinator/cli/display.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/held_out.h"
#include "coordinator/cli/interrupt.h"
#include "coordinator/cli/open_cluster.h"
#include "coordinator/cli/open_model.h"
#include "coordinator/cli/outputs.h"
#include "coordinator/cli/read_as_data.h"
#include "coordinator/cli/saved_flags.h"
#include "coordinator/cli/summaries.h"
#include "coordinator/job/metric_kind.h"
#include "coordinator/model/saved_inputs.h"
#include "coordinator/model/saved_manifest.h"
#include "coordinator/model/saved_side_tables.h"
#include "coordinator/sidecar/sidecar.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/config/yaml_reader.h"
#include "runtime/env/file_system.h"
#include "runtime/env/lost_pages.h"

namespace coxswain::cli {
namespace {

constexpr absl::Duration kLookEvery = absl::Seconds(1);
// Errors in a row, of the cluster or the disk, after which it ends.
constexpr int kMostErrors = 5;

void Note(const std::string& text) {
  if (!text.empty()) std::fprintf(stderr, "note: %s\n", text.c_str());
}

// By which metric a checkpoint is better than another one: the flag's, that of early stopping, or
// the first of the job's.
absl::StatusOr<sidecar::BestBy> FindMetric(const EvalFlags& flags, const job::JobSpec& job) {
  const auto& metrics = job.evaluate.metrics;
  if (!job.evaluate.enabled || metrics.empty()) {
    return config::ConfigurationError(absl::StrCat(
        job.Where("evaluate"), ": there is nothing to evaluate: split keeps no rows for it"));
  }
  std::string name = flags.metric;
  if (name.empty() && job.train.early_stopping) name = job.train.early_stopping->metric;
  if (name.empty()) name = metrics[0].name;
  const std::string whole = job::NameOfMetric(job.tasks, name);
  std::vector<std::string> names;
  for (const job::MetricSpec& metric : metrics) {
    if (metric.name != name && metric.name != whole) {
      names.push_back(metric.name);
      continue;
    }
    if (metric.kind->compares) return sidecar::BestBy{metric.name, metric.kind->higher_is_better};
    return config::ConfigurationError(absl::StrCat(
        "--metric: '", name, "' does not say which of two models is better: name another one"));
  }
  return config::ConfigurationError(
      absl::StrCat("--metric: ", config::UnknownName("metric of evaluate", name, names)));
}

// The flag's, or the one that is kept beside the inputs in this directory.
absl::StatusOr<EvaluatedJob> ReadFollowedJob(const EvalFlags& flags, const std::string& inputs) {
  auto job = ReadEvaluatedJob(flags.job, inputs, flags.overrides, model::kSavedInputs);
  return job.ok() ? std::move(job) : AsUsersMistake(job.status());
}

// A cluster that evaluates the job with these inputs, which may be another one than there was
// before, with the version of joined tables that a checkpoint has.
absl::StatusOr<sidecar::Sidecar::Opened> OpenSession(const EvalFlags& flags,
                                                     const std::string& inputs,
                                                     const std::string& side_tables) {
  ASSIGN_OR_RETURN(EvaluatedJob evaluated, ReadFollowedJob(flags, inputs));
  job::JobSpec& job = evaluated.job;
  ASSIGN_OR_RETURN(const sidecar::BestBy by, FindMetric(flags, job));
  if (evaluated.joins_kept_tables) {
    RETURN_IF_ERROR(
        model::JoinKeptSideTables(inputs, model::kSavedInputs, side_tables, &job.dataset));
  }
  ASSIGN_OR_RETURN(cluster::ClusterConfig config, ReadWhere(flags.where));
  auto cluster = OpenCluster(flags.where, std::move(config), MakeClusterOptions(job, flags.where),
                             /*reload=*/nullptr);
  if (!cluster.ok()) return AsUsersMistake(cluster.status());
  auto session = sidecar::EvaluationSession::Open(*cluster, job, inputs);
  if (!session.ok()) return AsUsersMistake(session.status());
  const runner::JobRunner& runner = (*session)->runner();
  const HeldOut held_out = IsHeldOut("", (*session)->trained(), runner.job(), runner.data(),
                                     runner.ScoredPart(job.evaluate.part));
  if (!held_out.sure && held_out.refuse && !flags.allow_training_rows) {
    return NotHeldOut("", held_out);
  }
  if (!held_out.sure) Note(held_out.why);
  return sidecar::Sidecar::Opened{*std::move(session), held_out.sure, by};
}

void PrintLine(const sidecar::EvaluatedCheckpoint& checkpoint,
               const runner::Evaluation& evaluation) {
  std::string line = absl::StrCat("step ", WithCommas(checkpoint.steps));
  for (const auto& [name, value] : evaluation.metrics) {
    absl::StrAppend(&line, "  ", name, " ", FormatMetric(evaluation, name));
  }
  absl::StrAppend(&line, "  (", checkpoint.part, ", ", WithCommas(checkpoint.examples),
                  " examples)", checkpoint.best ? "  best" : "");
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// By a clock that nobody sets.
absl::Duration Clock() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

bool IsOver(const EvalFlags& flags, const sidecar::Sidecar& sidecar) {
  if (!sidecar.last()) return false;
  return (flags.until_step && sidecar.last()->steps >= *flags.until_step) ||
         (flags.until_finished && sidecar.last()->finished);
}

// Looks once a second, until the flags or the user say that it is over.
absl::Status LookOn(const EvalFlags& flags, absl::Notification* ending, sidecar::Sidecar* sidecar) {
  absl::Duration active = Clock();
  int errors = 0;
  do {
    const auto evaluated = sidecar->Look();
    if (ending->HasBeenNotified()) break;
    if (evaluated.ok()) {
      errors = 0;
      if (*evaluated > 0) active = Clock();
    } else {
      if (ToExitCode(evaluated.status()) == kExitUsage) return evaluated.status();
      if (++errors == kMostErrors) return evaluated.status();
      Note(absl::StrCat("once more: ", evaluated.status().message()));
      active = Clock();
    }
    if (IsOver(flags, *sidecar)) break;
    if (flags.until_finished && !sidecar->end_passed_over().ok()) {
      return Annotate(sidecar->end_passed_over(), "the job's last checkpoint");
    }
    if (flags.idle_seconds > 0 && Clock() - active > absl::Seconds(flags.idle_seconds)) {
      Note(absl::StrCat("no checkpoint came for ", flags.idle_seconds, " seconds"));
      break;
    }
  } while (!ending->WaitForNotificationWithTimeout(kLookEvery));
  return absl::OkStatus();
}

// The newest checkpoint, if the job ended with it.
std::string FinishedCheckpoint(const EvalFlags& flags, env::FileSystem* files) {
  const auto entries = checkpoint::ListCheckpoints(files, flags.follow);
  if (!entries.ok() || entries->empty()) return "";
  const checkpoint::CheckpointEntry& newest = entries->front();
  return newest.manifest.ok() && sidecar::IsFinished(*newest.manifest) ? newest.path : "";
}

// Waits until the job has written what a side-car needs of it. False: it is to end. Errors: that
// cannot be looked at, or the job has ended without it.
absl::StatusOr<bool> WaitForJob(const EvalFlags& flags, env::FileSystem* files,
                                absl::Notification* ending) {
  const std::string manifest =
      absl::StrCat(model::InputsOf(flags.follow), "/", model::kSavedInputs.file);
  const absl::Duration begin = Clock();
  bool told = false;
  int ended = 0;  // looks since the job has
  while (true) {
    const absl::Status there = files->Size(manifest).status();
    if (there.ok()) return true;
    if (!absl::IsNotFound(there)) return AsUsersMistake(Annotate(there, "--follow"));
    if (!told) Note(absl::StrCat("waiting for ", manifest, ", which the job writes first"));
    told = true;
    // A job that could not write it before tries once more behind its last checkpoint.
    const std::string last = flags.until_finished ? FinishedCheckpoint(flags, files) : "";
    if (!last.empty() && ++ended == kMostErrors) {
      return absl::DataLossError(absl::StrCat("the job has ended with ", last, " and without ",
                                              manifest, ": its checkpoints cannot be evaluated"));
    }
    const bool idle = flags.idle_seconds > 0 && Clock() - begin > absl::Seconds(flags.idle_seconds);
    if (idle || ending->WaitForNotificationWithTimeout(kLookEvery)) return false;
  }
}

// `last`: what an earlier side-car evaluated last.
absl::Status BeginSummaries(const std::string& directory,
                            const std::optional<sidecar::EvaluatedCheckpoint>& last,
                            Summaries* summaries) {
  if (directory.empty()) return absl::OkStatus();
  const absl::Status begun = summaries->Begin(directory, last ? last->steps + 1 : 0);
  if (begun.ok()) return begun;
  return config::ConfigurationError(absl::StrCat("--tensorboard: ", begun.message()));
}

absl::Status Follow(const EvalFlags& flags) {
  AllowManyFiles();
  env::GuardMappedFiles();
  const auto files = env::NewRealFileSystem();
  const std::string own =
      flags.eval_dir.empty() ? absl::StrCat(flags.follow, "/eval") : flags.eval_dir;
  RETURN_IF_ERROR(CheckOfThisMachine("--follow", flags.follow));
  RETURN_IF_ERROR(CheckOutsideSaved(flags.eval_dir.empty() ? NamedPath{"--follow", flags.follow}
                                                           : NamedPath{"--eval-dir", own}));
  absl::Notification ending;
  sidecar::Sidecar* running = nullptr;
  absl::Mutex mutex;
  const InterruptScope scope([&] {
    absl::MutexLock lock(&mutex);
    ending.Notify();
    if (running != nullptr) running->Interrupt();
  });
  ASSIGN_OR_RETURN(const bool begun, WaitForJob(flags, files.get(), &ending));
  if (!begun) return absl::OkStatus();
  ASSIGN_OR_RETURN(const EvaluatedJob evaluated,
                   ReadFollowedJob(flags, model::InputsOf(flags.follow)));
  const job::JobSpec& job = evaluated.job;
  ASSIGN_OR_RETURN(const sidecar::BestBy by, FindMetric(flags, job));
  std::vector<CommandInput> inputs = InputsOf(job);
  SavedFlags of_job;
  of_job.checkpoint_dir = flags.follow;
  for (CommandInput& origin : OriginsOf(of_job)) {
    inputs.push_back(std::move(origin));
  }
  const NamedPath written{flags.eval_dir.empty() ? "--follow" : "--eval-dir", own};
  RETURN_IF_ERROR(CheckNoInput(written, inputs));
  RETURN_IF_ERROR(CheckNotReadAsData(written, DirectoryOf::kEvaluations, inputs));
  const NamedPath curves{"--tensorboard", flags.tensorboard};
  RETURN_IF_ERROR(CheckApart({written.flag, own}, curves));
  // Only now: of a name that was mistyped nothing is made.
  RETURN_IF_ERROR(CheckOutputDirectory("--eval-dir", own));
  RETURN_IF_ERROR(CheckSummaryDirectory(curves, inputs));
  auto directory = sidecar::SideDirectory::Open(files.get(), own, job.name, by);
  if (!directory.ok()) return AsUsersMistake(directory.status());
  Summaries summaries(
      [](const std::string& warning) { std::fprintf(stderr, "%s\n", warning.c_str()); });
  RETURN_IF_ERROR(BeginSummaries(flags.tensorboard, directory->log().last(), &summaries));
  sidecar::Sidecar::Hooks hooks;
  hooks.open = [&](const std::string& inputs, const std::string& side_tables) {
    return OpenSession(flags, inputs, side_tables);
  };
  hooks.on_evaluated = [&summaries](const sidecar::EvaluatedCheckpoint& checkpoint,
                                    const runner::Evaluation& evaluation) {
    PrintLine(checkpoint, evaluation);
    summaries.AddMetrics(checkpoint.part, checkpoint.steps, checkpoint.metrics);
  };
  hooks.on_note = Note;
  sidecar::Sidecar sidecar(files.get(), flags.follow, *std::move(directory), std::move(hooks));
  {
    absl::MutexLock lock(&mutex);
    running = &sidecar;
  }
  std::printf("evaluating the checkpoints in %s, reports in %s/%s\n", flags.follow.c_str(),
              own.c_str(), sidecar::kReports);
  std::fflush(stdout);
  const absl::Status status = LookOn(flags, &ending, &sidecar);
  absl::MutexLock lock(&mutex);
  running = nullptr;
  return status;
}

}  // namespace

int EvalFollow(const EvalFlags& flags) {
  const absl::Status status = Follow(flags);
  return status.ok() ? static_cast<int>(kExitDone) : Complain(status);
}

}  // namespace coxswain::cli
