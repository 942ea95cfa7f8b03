// `coxswain train`.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "coordinator/api/checkpoint.h"
#include "coordinator/api/cluster.h"
#include "coordinator/cli/chaos_command.h"
#include "coordinator/cli/cluster_reload.h"
#include "coordinator/cli/command_util.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/display.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/interrupt.h"
#include "coordinator/cli/trace_session.h"
#include "coordinator/local/local_tasks.h"
#include "coordinator/model/saved_model.h"
#include "coordinator/runner/runner.h"
#include "runtime/base/status.h"
#include "runtime/config/yaml_reader.h"
#include "runtime/env/file_system.h"

namespace coxswain {
namespace {

absl::StatusOr<Cluster> OpenCluster(const Where& where, ClusterOptions options,
                                    ClusterReload* reload) {
  options.connect_timeout = absl::Seconds(where.connect_timeout);
  options.threads = where.threads;
  if (!where.cluster_file.empty()) {
    auto config = ReadClusterConfig(where.cluster_file);
    if (!config.ok()) return AsConfiguration(config.status());
    ASSIGN_OR_RETURN(Cluster cluster, Cluster::Connect(*config, options));
    reload->Attach(cluster, *std::move(config));
    return cluster;
  }
  if (where.in_process) return Cluster::InProcess(1, 1, options);
  if (where.local.empty()) {
    const char* tf_config = std::getenv("TF_CONFIG");
    if (tf_config == nullptr) {
      return ConfigurationError(
          "where is the job to run? give one of --cluster FILE, --local PSxW and --in-process, or "
          "set TF_CONFIG");
    }
    auto config = ParseTfConfig(tf_config);
    if (!config.ok()) return AsConfiguration(config.status());
    return Cluster::Connect(config->cluster, options);
  }
  ASSIGN_OR_RETURN(const LocalSize size, ParseLocalSize(where.local));
  return Cluster::Local(size.ps, size.workers, options);
}

ClusterOptions MakeClusterOptions(const JobSpec& job, const Where& where) {
  ClusterOptions options;
  options.closures_in_flight = static_cast<int>(job.train.closures_in_flight);
  options.lease = absl::Seconds(job.cluster.lease_seconds);
  options.connect_timeout = absl::Seconds(where.connect_timeout);
  options.threads = where.threads;
  options.recovery.cluster_timeout = absl::Seconds(job.cluster.timeout_seconds);
  options.recovery.quarantine_after = static_cast<int>(job.cluster.quarantine_after);
  options.recovery.ps_return_timeout = absl::Seconds(job.checkpoint.ps_return_seconds);
  switch (job.checkpoint.on_ps_loss) {
    case OnPsLoss::kRollback:
      options.recovery.on_ps_loss = PsLossPolicy::kRollback;
      break;
    case OnPsLoss::kReplay:
      options.recovery.on_ps_loss = PsLossPolicy::kReplay;
      break;
    case OnPsLoss::kAcceptLoss:
      options.recovery.on_ps_loss = PsLossPolicy::kAcceptLoss;
      break;
  }
  return options;
}

CheckpointOptions MakeCheckpointOptions(const JobSpec& job, const TrainFlags& flags) {
  CheckpointOptions options;
  options.directory =
      flags.checkpoint_dir.empty() ? job.checkpoint.directory : flags.checkpoint_dir;
  options.job = job.name;
  options.every = absl::Seconds(flags.checkpoint_every.value_or(job.checkpoint.every_seconds));
  options.every_steps = job.checkpoint.every_steps;
  options.keep = static_cast<int>(job.checkpoint.keep);
  if (!job.checkpoint.incremental) options.max_deltas = 0;
  options.rebalance = job.checkpoint.rebalance;
  return options;
}

// What the flags and the job say of checkpoints; with --resume, the one to go on from is found.
// Nothing when the job writes none.
absl::StatusOr<std::unique_ptr<CheckpointManager>> OpenCheckpoints(const JobSpec& job,
                                                                   const TrainFlags& flags) {
  const CheckpointOptions options = MakeCheckpointOptions(job, flags);
  if (options.directory.empty()) {
    if (!flags.resume && !flags.checkpoint_every) return nullptr;
    return ConfigurationError(absl::StrCat(
        flags.resume ? "--resume" : "--checkpoint-every",
        " wants a directory of checkpoints: --checkpoint-dir DIR, or checkpoint.directory in the "
        "job"));
  }
  std::error_code ignored;
  if (std::filesystem::exists(options.directory, ignored) &&
      !std::filesystem::is_directory(options.directory, ignored)) {
    return ConfigurationError(
        absl::StrCat("--checkpoint-dir ", options.directory, ": it is no directory"));
  }
  RETURN_IF_ERROR(AsConfiguration(
      CheckWritable("--checkpoint-dir", options.directory, /*make_directories=*/true)));
  if (access(options.directory.c_str(), W_OK | X_OK) != 0 && errno != ENOENT) {
    return ConfigurationError(absl::StrCat("--checkpoint-dir ", options.directory,
                                           " cannot be written: ", std::strerror(errno)));
  }
  auto checkpoints = std::make_unique<CheckpointManager>(options);
  const std::string& directory = checkpoints->options().directory;
  if (!flags.resume) {
    ASSIGN_OR_RETURN(const auto there, ListCheckpoints(NewRealFileSystem().get(), directory));
    if (there.empty()) return checkpoints;
    return ConfigurationError(absl::StrCat(directory, " has checkpoints already, the newest is ",
                                           CheckpointName(there[0].number),
                                           "; go on from it with --resume, or name another "
                                           "directory to begin anew"));
  }
  const absl::Status found = checkpoints->Find(JobRunner::CheckUsable);
  for (const absl::Status& status : checkpoints->skipped()) {
    std::fprintf(stderr, "not used: %s\n", std::string(status.message()).c_str());
  }
  RETURN_IF_ERROR(found);
  return checkpoints;
}

// The coordinator that held the cluster until now may have written newer checkpoints since they
// were looked at first, and removed the one that was found.
absl::Status FindAgain(const TrainFlags& flags, CheckpointManager* checkpoints) {
  if (checkpoints == nullptr || !flags.resume) return absl::OkStatus();
  RETURN_IF_ERROR(checkpoints->Find(JobRunner::CheckUsable));
  if (flags.quiet) return absl::OkStatus();
  if (checkpoints->found()) {
    std::fprintf(stderr, "resuming from %s, step %lld\n", checkpoints->path().c_str(),
                 static_cast<long long>(checkpoints->manifest().steps));
  } else {
    std::fprintf(stderr, "no checkpoint in %s yet, the job starts anew\n",
                 checkpoints->options().directory.c_str());
  }
  return absl::OkStatus();
}

std::string ShellQuoted(const std::string& word) {
  constexpr char kSafe[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%+";
  if (!word.empty() && word.find_first_not_of(kSafe) == std::string::npos) return word;
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

// The command line that goes on with what these flags began.
std::string ResumeCommand(const TrainFlags& flags) {
  std::vector<std::string> words = {"coxswain", "train", flags.job};
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {flag, value});
  };
  add("--cluster", flags.where.cluster_file);
  add("--local", flags.where.local);
  if (flags.where.in_process) words.push_back("--in-process");
  for (const std::string& change : flags.overrides) add("--set", change);
  add("--checkpoint-dir", flags.checkpoint_dir);
  if (flags.checkpoint_every) add("--checkpoint-every", absl::StrCat(*flags.checkpoint_every));
  add("--report", flags.report);
  add("--model-dir", flags.model_dir);
  if (flags.count_visits) words.push_back("--count-visits");
  if (flags.quiet) words.push_back("--quiet");
  words.push_back("--resume");
  for (std::string& word : words) word = ShellQuoted(word);
  return absl::StrJoin(words, " ");
}

absl::Status FinishTrace(const TrainFlags& flags, TraceSession* trace) {
  if (trace == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(trace->Finish());
  if (const int64_t dropped = trace->writer().dropped(); dropped > 0) {
    std::fprintf(stderr, "trace: %lld spans came too fast and are not in it\n",
                 static_cast<long long>(dropped));
  }
  if (!flags.quiet) {
    std::fprintf(stderr, "trace: %lld spans in %s, for ui.perfetto.dev\n",
                 static_cast<long long>(trace->writer().spans()), flags.trace.c_str());
  }
  return absl::OkStatus();
}

absl::Status Save(const TrainFlags& flags, const JobSpec& job, const std::string& job_text,
                  const JobResult& result, JobRunner* runner) {
  SavedModelInfo info;
  info.job_text = job_text;
  // Absolute: the model may be used from any directory.
  std::error_code ignored;
  info.job_file = std::filesystem::absolute(flags.job, ignored).string();
  info.overrides = flags.overrides;
  info.steps = result.steps;
  info.metrics = result.metrics;
  return SaveModel(runner->strategy(), runner->data(), job, info, flags.model_dir);
}

// `*resumable`: the job was interrupted and can go on.
absl::Status RunTraining(const TrainFlags& flags, Display* display, bool* resumable) {
  ASSIGN_OR_RETURN(JobSpec job, ReadJob(flags.job, flags.overrides));
  job.dataset.set_example_ids(flags.count_visits);
  ASSIGN_OR_RETURN(std::string job_text, ReadTextFile(flags.job));
  RETURN_IF_ERROR(CheckWritable("--report", flags.report, /*make_directories=*/false));
  RETURN_IF_ERROR(
      AsConfiguration(CheckWritable("--trace", flags.trace, /*make_directories=*/false)));
  RETURN_IF_ERROR(CheckWritable("--model-dir", flags.model_dir, /*make_directories=*/true));
  ASSIGN_OR_RETURN(const auto checkpoints, OpenCheckpoints(job, flags));
  ClusterOptions options = MakeClusterOptions(job, flags.where);
  if (checkpoints != nullptr) options.min_epoch = checkpoints->min_epoch();
  options.on_event = [display](const ClusterEvent& e) { display->ShowEvent(e); };
  display->set_log_every(job.train.log_every);
  ClusterReload reload(flags.where.cluster_file, [display](const std::string& text) {
    display->Clear();
    std::fprintf(stderr, "%s\n", text.c_str());
  });
  ASSIGN_OR_RETURN(Cluster cluster, OpenCluster(flags.where, std::move(options), &reload));
  RETURN_IF_ERROR(FindAgain(flags, checkpoints.get()));
  std::unique_ptr<TraceSession> trace;
  if (!flags.trace.empty()) {
    ASSIGN_OR_RETURN(trace, TraceSession::Start(cluster, flags.trace));
  }
  RunEvents events;
  events.on_progress = [display](const Progress& p) { display->ShowProgress(p); };
  events.on_evaluation = [display](const Evaluation& e) { display->ShowEvaluation(e); };
  JobRunner runner(cluster, job, std::move(events), checkpoints.get());
  InterruptScope interrupts([&runner] { runner.Interrupt(); });
  RETURN_IF_ERROR(runner.Prepare());
  absl::StatusOr<JobResult> result = runner.Train();
  *resumable = runner.resumable();
  display->Clear();
  const absl::Status traced = FinishTrace(flags, trace.get());
  RETURN_IF_ERROR(result.status());
  if (!flags.model_dir.empty()) {
    display->ShowProgress({Progress::Phase::kSaving});
    RETURN_IF_ERROR(Save(flags, job, job_text, *result, &runner));
  }
  display->Clear();
  RETURN_IF_ERROR(WriteReport(flags.report, ToReportJson(*result)));
  RETURN_IF_ERROR(traced);
  if (!flags.quiet) std::printf("%s", FormatResult(*result).c_str());
  return absl::OkStatus();
}

}  // namespace

int Train(const TrainFlags& flags) {
  if (!flags.chaos.empty()) return RunUnderChaos(flags);
  Display display(flags.quiet);
  bool resumable = false;
  const absl::Status status = RunTraining(flags, &display, &resumable);
  display.Clear();
  if (status.ok()) return kExitDone;
  if (resumable) {
    std::fprintf(stderr, "interrupted; resume with\n  %s\n", ResumeCommand(flags).c_str());
    return kExitResumable;
  }
  if (!InterruptScope::interrupted()) return Complain(status);
  if (absl::IsCancelled(status)) {
    std::fprintf(stderr, "interrupted\n");
  } else {
    Complain(status);
  }
  return kExitInterrupted;
}

}  // namespace coxswain
