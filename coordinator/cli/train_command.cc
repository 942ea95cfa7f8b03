// `coxswain train`.
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/api/cluster_identity.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/cli/changed_rates.h"
#include "coordinator/cli/chaos_command.h"
#include "coordinator/cli/cluster_reload.h"
#include "coordinator/cli/command_util.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/data_summary.h"
#include "coordinator/cli/display.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/held_out.h"
#include "coordinator/cli/interrupt.h"
#include "coordinator/cli/kept_inputs.h"
#include "coordinator/cli/open_cluster.h"
#include "coordinator/cli/outputs.h"
#include "coordinator/cli/read_as_data.h"
#include "coordinator/cli/report_output.h"
#include "coordinator/cli/save_somewhere.h"
#include "coordinator/cli/saved_flags.h"
#include "coordinator/cli/summaries.h"
#include "coordinator/cli/trace_session.h"
#include "coordinator/cli/train_metrics.h"
#include "coordinator/job/changed_keys.h"
#include "coordinator/model/initial_rows.h"
#include "coordinator/model/model_directory.h"
#include "coordinator/model/saved_inputs.h"
#include "coordinator/model/saved_model.h"
#include "coordinator/model/visits.h"
#include "coordinator/model/warm_start.h"
#include "coordinator/runner/best_values.h"
#include "coordinator/runner/runner.h"
#include "coxswain/checkpoint.h"
#include "coxswain/cluster.h"
#include "kernels/optimizers/optimizer_info.h"
#include "runtime/base/shell.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/checkpoint_lock.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/config/yaml_reader.h"
#include "runtime/env/file_system.h"

namespace coxswain::cli {
namespace {

CheckpointOptions MakeCheckpointOptions(const job::JobSpec& job, const TrainFlags& flags) {
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

// Two jobs that write into one directory would remove each other's checkpoints. Between
// coordinators of the same cluster the daemons decide: the one that holds them gets the directory.
absl::Status LockDirectory(const TrainFlags& flags, const std::string& cluster,
                           CheckpointManager* checkpoints) {
  absl::Status locked = checkpoints->Lock(cluster, absl::ZeroDuration());
  if (!absl::IsUnavailable(locked)) return locked;
  if (!cluster.empty() && checkpoints->holder().cluster == cluster) return absl::OkStatus();
  if (!flags.quiet) std::fprintf(stderr, "waiting: %s\n", std::string(locked.message()).c_str());
  return checkpoints->Lock(cluster, absl::Seconds(flags.where.connect_timeout));
}

// Best values without the checkpoints that name them are all that somebody kept of an earlier job:
// they would go as this one's old ones.
absl::Status CheckNoBestValues(const std::string& directory) {
  ASSIGN_OR_RETURN(const auto names, env::NewRealFileSystem()->List(directory));
  for (const std::string& name : names) {
    if (!runner::IsBestValuesName(name)) continue;
    return config::ConfigurationError(absl::StrCat(
        directory, " has ", name, ", the best values of an earlier job, and no checkpoint: move ",
        name, " elsewhere, or name another directory to begin anew"));
  }
  return absl::OkStatus();
}

// The checkpoints as the flags and the job configure them; with --resume, finds the one to go on
// from. Nullopt when the job writes none. `cluster`: of daemons, see ClusterIdentity.
absl::StatusOr<std::unique_ptr<CheckpointManager>> OpenCheckpoints(const job::JobSpec& job,
                                                                   const TrainFlags& flags,
                                                                   const std::string& cluster) {
  const CheckpointOptions options = MakeCheckpointOptions(job, flags);
  if (options.directory.empty()) {
    if (!flags.resume && !flags.checkpoint_every) {
      if (job.locations.count("checkpoint") > 0 && !flags.quiet) {
        std::fprintf(stderr,
                     "note: no checkpoints are written: `checkpoint` has no directory; name one in "
                     "the job or by --checkpoint-dir\n");
      }
      return nullptr;
    }
    return config::ConfigurationError(absl::StrCat(
        flags.resume ? "--resume" : "--checkpoint-every",
        " wants a directory of checkpoints: --checkpoint-dir DIR, or checkpoint.directory in the "
        "job"));
  }
  ASSIGN_OR_RETURN(const std::string full,
                   CheckCheckpointDirectory("--checkpoint-dir", options.directory));
  if (!full.empty()) std::fprintf(stderr, "warning: %s\n", full.c_str());
  auto checkpoints = std::make_unique<CheckpointManager>(options);
  const std::string& directory = checkpoints->options().directory;
  const absl::Status locked = LockDirectory(flags, cluster, checkpoints.get());
  if (absl::IsResourceExhausted(locked)) {
    // Of a directory that no job has had: without a lock another job could come into it.
    return config::ConfigurationError(absl::StrCat("--checkpoint-dir ", options.directory,
                                                   " cannot be locked: ", locked.message()));
  }
  RETURN_IF_ERROR(locked);
  if (!flags.resume) {
    ASSIGN_OR_RETURN(const auto there,
                     checkpoint::ListCheckpoints(env::NewRealFileSystem().get(), directory));
    if (there.empty()) {
      RETURN_IF_ERROR(CheckNoBestValues(directory));
      return checkpoints;
    }
    return config::ConfigurationError(absl::StrCat(directory,
                                                   " has checkpoints already, the newest is ",
                                                   checkpoint::CheckpointName(there[0].number),
                                                   "; go on from it with --resume, or name another "
                                                   "directory to begin anew"));
  }
  const absl::Status found = checkpoints->Find(runner::JobRunner::CheckUsable);
  for (const absl::Status& status : checkpoints->skipped()) {
    std::fprintf(stderr, "not used: %s\n", std::string(status.message()).c_str());
  }
  RETURN_IF_ERROR(found);
  if (!checkpoints->found()) RETURN_IF_ERROR(CheckNoBestValues(directory));
  return checkpoints;
}

// The previous coordinator of the cluster may have written newer checkpoints since the first look,
// and removed the one that was found.
absl::Status FindAgain(const TrainFlags& flags, CheckpointManager* checkpoints) {
  if (checkpoints == nullptr || !flags.resume) return absl::OkStatus();
  RETURN_IF_ERROR(checkpoints->Find(runner::JobRunner::CheckUsable));
  if (flags.quiet) return absl::OkStatus();
  if (checkpoints->found()) {
    std::fprintf(stderr, "resuming from %s, step %lld\n", checkpoints->path().c_str(),
                 static_cast<long long>(checkpoints->manifest().steps_done()));
  } else {
    std::fprintf(stderr, "no checkpoint in %s yet, the job starts anew\n",
                 checkpoints->options().directory.c_str());
  }
  return absl::OkStatus();
}

// What the job says otherwise than the one whose inputs are beside the checkpoints. What cannot go
// on with these is refused elsewhere; the rest trains on as it is now.
void TellChanges(const TrainFlags& flags, const std::string& job_text, const job::JobSpec& job,
                 const CheckpointManager* checkpoints) {
  if (checkpoints == nullptr || !checkpoints->found()) return;
  const auto before =
      model::ReadModelInfo(model::InputsOf(checkpoints->options().directory), model::kSavedInputs);
  std::vector<std::string> changed;
  if (before.ok()) {
    changed = job::ChangedKeys({before->job_text, before->overrides}, {job_text, flags.overrides});
  }
  if (!changed.empty()) {
    NoteOnStderr(absl::StrCat("note: the job is not what it was when it began: ",
                              absl::StrJoin(changed, "; ")));
  }
  const bool told = absl::c_any_of(
      changed, [](const std::string& key) { return absl::StrContains(key, "optimizer"); });
  const std::string rates = told ? "" : ChangedRates(checkpoints->manifest(), job);
  if (rates.empty()) return;
  NoteOnStderr(
      absl::StrCat("note: tables have other learning rates than in the checkpoint: ", rates));
}

// The command line that continues a job with these flags; but for --trace, which would replace the
// file of the part that is over.
std::string ResumeCommand(const TrainFlags& flags) {
  std::vector<std::string> words = {"coxswain", "train", flags.job};
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {flag, value});
  };
  add("--cluster", flags.where.cluster_file);
  add("--local", flags.where.local);
  if (flags.where.in_process) words.push_back("--in-process");
  if (flags.where.threads > 0) add("--threads", absl::StrCat(flags.where.threads));
  if (flags.where.connect_timeout != Where().connect_timeout) {
    add("--connect-timeout", absl::StrCat(flags.where.connect_timeout));
  }
  add("--secret-file", flags.where.credentials.secret.file);
  if (flags.where.credentials.secret.insecure) words.push_back("--insecure");
  add("--tls-dir", flags.where.credentials.tls.directory);
  add("--tls-name", flags.where.credentials.tls.name);
  for (const std::string& change : flags.overrides) add("--set", change);
  add("--checkpoint-dir", flags.checkpoint_dir);
  if (flags.checkpoint_every) add("--checkpoint-every", absl::StrCat(*flags.checkpoint_every));
  add("--report", flags.report);
  add("--tensorboard", flags.tensorboard);
  add("--metrics", flags.metrics);
  add("--model-dir", flags.model_dir);
  add("--init-from", flags.init_from);
  for (const std::string& entry : flags.init_map) add("--init-map", entry);
  if (flags.init_slots == "none") add("--init-slots", flags.init_slots);
  if (flags.allow_training_rows) words.push_back("--allow-training-rows");
  if (flags.model_slots) words.push_back("--model-slots");
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

// The approximate size of the model's files.
int64_t ModelBytes(const TrainFlags& flags, runner::JobRunner* runner) {
  int64_t bytes = 0;
  for (const auto& variable : runner->strategy()->variables()) {
    if (model::IsInternal(*variable) || variable->hash()) continue;
    auto of_row = static_cast<int64_t>(SizeOf(variable->dtype));
    if (flags.model_slots) {
      for (const kernels::SlotInfo& slot : kernels::SlotsOfKind(variable->optimizer.kind())) {
        if (!slot.per_row) of_row += static_cast<int64_t>(SizeOf(variable->value_dtype()));
      }
    }
    bytes += variable->shape.num_elements() * of_row;
  }
  return bytes;
}

// What a saved model keeps of the job, beside what it has learned.
struct Given {
  std::string job_text;
  std::optional<model::EarlierModel> earlier;
};

// The job's description in a saved model.
model::SavedModelInfo InfoOf(const TrainFlags& flags, const Given& given) {
  model::SavedModelInfo info;
  info.earlier = given.earlier;
  info.job_text = given.job_text;
  // Absolute: the model may be used from any directory.
  std::error_code ignored;
  info.job_file = std::filesystem::absolute(flags.job, ignored).string();
  info.overrides = flags.overrides;
  return info;
}

absl::Status Save(const TrainFlags& flags, const Given& given, const runner::JobResult& result,
                  runner::JobRunner* runner, const std::string& directory) {
  model::SavedModelInfo info = InfoOf(flags, given);
  info.steps = result.steps;
  info.slots = flags.model_slots;
  info.metrics = result.metrics;
  return model::SaveModel(runner->strategy(), runner->data(), runner->job(), info, directory);
}

// Tells where the model is when it could not be saved where it should be.
absl::Status NotSaved(const TrainFlags& flags, const SaveOutcome& outcome,
                      const std::string& checkpoints) {
  std::string text = absl::StrCat("cannot save the model in ", flags.model_dir, ": ",
                                  outcome.status.message(), "\n");
  if (!outcome.directory.empty()) {
    absl::StrAppend(&text, "it is saved in ", outcome.directory, " instead: move it from there");
  } else if (!checkpoints.empty()) {
    absl::StrAppend(&text, "nothing is lost: the newest checkpoint in ", checkpoints,
                    " has it. With room there, or with another --model-dir, this saves it:\n  ",
                    ResumeCommand(flags));
  } else {
    absl::StrAppend(&text, "there was no other place for it: it is lost");
  }
  return absl::Status(outcome.status.code(), text);
}

absl::Status CheckModelPlace(const NamedPath& model, const NamedPath& checkpoints,
                             const std::vector<CommandInput>& inputs) {
  RETURN_IF_ERROR(CheckApart(model, checkpoints));
  RETURN_IF_ERROR(CheckNoInput(model, inputs));
  RETURN_IF_ERROR(CheckNotReadAsData(model, DirectoryOf::kModel, inputs));
  return CheckModelOutsideSaved(model);
}

absl::Status SaveResult(const TrainFlags& flags, const Given& given,
                        const runner::JobResult& result, const CheckpointManager* checkpoints,
                        runner::JobRunner* runner) {
  const bool kept = checkpoints != nullptr && result.last_checkpoint.ok();
  if (flags.model_dir.empty()) {
    if (checkpoints == nullptr || kept) return absl::OkStatus();
    return Annotate(result.last_checkpoint, "the last checkpoint could not be written");
  }
  SaveOptions options;
  options.directory = flags.model_dir;
  options.bytes = ModelBytes(flags, runner);
  if (kept) options.checkpoints = checkpoints->options().directory;
  options.places = PlacesBeside(flags.model_dir);
  options.check = [&](const std::string& directory) {
    return CheckModelPlace(
        {"the directory", directory},
        {"--checkpoint-dir", MakeCheckpointOptions(runner->job(), flags).directory},
        InputsOf(runner->job()));
  };
  options.ask = AskOnTerminal();
  const SaveOutcome outcome = SaveSomewhere(options, [&](const std::string& directory) {
    return Save(flags, given, result, runner, directory);
  });
  if (outcome.status.ok()) return absl::OkStatus();
  if (!outcome.chosen) return NotSaved(flags, outcome, options.checkpoints);
  if (!flags.quiet) std::fprintf(stderr, "the model is in %s\n", outcome.directory.c_str());
  return absl::OkStatus();
}

absl::Status CheckModelDirectory(const TrainFlags& flags, int64_t bytes) {
  if (flags.model_dir.empty()) return absl::OkStatus();
  const absl::Status status = model::CheckCanSave(flags.model_dir, bytes);
  if (status.ok()) return status;
  return config::ConfigurationError(
      absl::StrCat("--model-dir ", flags.model_dir, " cannot be written: ", status.message()));
}

// Checks for errors that would otherwise be noticed only after hours, or would destroy a user's
// file.
absl::Status CheckOutputs(const TrainFlags& flags, const std::string& report_file,
                          const job::JobSpec& job) {
  std::vector<CommandInput> inputs = InputsOf(job);
  AddInputsOf(flags.where, &inputs);
  RETURN_IF_ERROR(CheckOutputFile("--report", report_file, OutputKind::kTrainingReport, inputs));
  RETURN_IF_ERROR(CheckOutputFile("--trace", flags.trace, OutputKind::kTrace, inputs));
  const NamedPath report{"--report", report_file}, trace{"--trace", flags.trace},
      model{"--model-dir", flags.model_dir},
      checkpoints{"--checkpoint-dir", MakeCheckpointOptions(job, flags).directory};
  RETURN_IF_ERROR(CheckApart(report, trace));
  RETURN_IF_ERROR(CheckModelPlace(model, checkpoints, inputs));
  RETURN_IF_ERROR(CheckNotReadAsData(checkpoints, DirectoryOf::kCheckpoints, inputs));
  for (const NamedPath& file : {report, trace}) {
    RETURN_IF_ERROR(CheckOutside(file, model));
    for (const NamedPath& directory : {model, checkpoints}) {
      RETURN_IF_ERROR(CheckNotUnderFile(directory, file));
    }
  }
  for (const NamedPath& path : {report, trace, checkpoints}) {
    RETURN_IF_ERROR(CheckOutsideSaved(path));
  }
  RETURN_IF_ERROR(CheckModelDirectory(flags, 0));
  const NamedPath summaries{"--tensorboard", flags.tensorboard};
  for (const NamedPath& file : {report, trace}) {
    RETURN_IF_ERROR(CheckNotUnderFile(summaries, file));
  }
  RETURN_IF_ERROR(CheckOutside(summaries, model));
  return CheckSummaryDirectory(summaries, inputs);
}

// What the model is that training goes on from is a mistake to be told before anything is begun.
absl::StatusOr<std::optional<model::EarlierModel>> KeepKnownIds(const TrainFlags& flags,
                                                                const model::NameMap& names,
                                                                job::JobSpec* job) {
  if (flags.model_slots && flags.model_dir.empty()) {
    return config::ConfigurationError("--model-slots: wanted --model-dir, where they are saved");
  }
  if (flags.init_from.empty()) {
    if (!flags.init_map.empty()) {
      return config::ConfigurationError("--init-map: wanted --init-from, the model of the names");
    }
    if (flags.init_slots == "auto") return std::nullopt;
    return config::ConfigurationError("--init-slots: wanted --init-from, whose slots they are");
  }
  auto kept = model::KeepIds(flags.init_from, &job->dataset, names);
  if (kept.ok()) return *std::move(kept);
  if (absl::IsDataLoss(kept.status())) return kept.status();
  return config::ConfigurationError(absl::StrCat("--init-from: ", kept.status().message()));
}

// What is measured may have been learned by the model that training goes on from.
absl::Status CheckHeldOut(const TrainFlags& flags, const Given& given,
                          const runner::JobRunner& runner) {
  const job::JobSpec& job = runner.job();
  if (!given.earlier) return absl::OkStatus();
  const std::string more = NewExamples(flags.init_from, given.earlier->trained, job, runner.data());
  if (!more.empty() && !flags.quiet) std::fprintf(stderr, "note: %s\n", more.c_str());
  if (!job.evaluate.enabled) return absl::OkStatus();
  for (const Part part : {job.evaluate.part, runner.FinalPart()}) {
    const HeldOut held_out = IsHeldOut(flags.init_from, given.earlier->trained, job, runner.data(),
                                       runner.ScoredPart(part));
    if (held_out.sure) continue;
    if (held_out.refuse && !flags.allow_training_rows) return NotHeldOut(flags.init_from, held_out);
    if (!flags.quiet) std::fprintf(stderr, "note: %s\n", held_out.why.c_str());
    break;
  }
  return absl::OkStatus();
}

// "epoch 3: 1,024 rows of clicks/a.csv and 2 other files".
std::string DescribeFiles(int64_t epoch, const runner::FollowedEpoch& come) {
  const size_t others = come.files.size() - 1;
  return absl::StrCat("epoch ", epoch + 1, ": ", WithCommas(come.examples), " rows of ",
                      come.files[0].path, others == 0 ? "" : absl::StrCat(" and ", others),
                      others == 0   ? "\n"
                      : others == 1 ? " other file\n"
                                    : " other files\n");
}

std::string DescribeLeftOut(ErrorPolicy policy, const runner::LeftOut& left_out, bool trained) {
  const absl::string_view error = left_out.first.message();
  if (trained) {
    return absl::StrCat(
        WithCommas(left_out.closures), " of ", WithCommas(left_out.of),
        " closures failed and were skipped (train.on_error: ignore); the first: ", error);
  }
  return absl::StrCat(policy == ErrorPolicy::kIgnore
                          ? "a closure failed and is skipped, as others that fail will be "
                            "(train.on_error: ignore): "
                          : "a closure failed; the job ends when the others of its epoch have run "
                            "(train.on_error: collect): ",
                      error);
}

runner::RunEvents MakeRunEvents(const job::JobSpec& job, Display* display, Summaries* summaries,
                                const std::shared_ptr<KeptInputs>& inputs) {
  runner::RunEvents events;
  events.on_data = [display](const job::JobSpec& j, const data::Dataset& d) {
    display->ShowText(absl::StrCat(DescribeUnused(j), DescribeLabels(j, d)));
  };
  events.on_progress = [display, summaries, inputs](const runner::Progress& p) {
    inputs->Look();
    display->ShowProgress(p);
    summaries->AddProgress(p);
  };
  events.on_evaluation = [display, summaries](const runner::Evaluation& e) {
    display->ShowEvaluation(e);
    summaries->AddEvaluation(e);
  };
  events.on_counters = [summaries](const runner::RunCounters& counters, int workers) {
    summaries->AddCounters(counters, workers);
  };
  events.on_rate = [display](double factor) {
    display->ShowText(absl::StrCat("learning rates are times ", factor, " from here on\n"));
  };
  events.on_warm_start = [display](const model::WarmStart& w) { display->ShowText(w.ToString()); };
  events.on_initial_rows = [display](const model::InitialRows& rows) {
    display->ShowText(absl::StrCat(rows.ToString(), "\n"));
  };
  events.on_left_out = [display, policy = job.train.on_error](const runner::LeftOut& left_out,
                                                              bool trained) {
    display->Clear();
    std::fprintf(stderr, "%s\n", DescribeLeftOut(policy, left_out, trained).c_str());
  };
  events.on_files = [display](int64_t epoch, const runner::FollowedEpoch& come) {
    display->ShowText(DescribeFiles(epoch, come));
  };
  return events;
}

// Early stopping chooses by what is measured in the end.
void NoteTestPart(const job::JobSpec& job) {
  if (!job.train.early_stopping || job.evaluate.part != Part::kTest) return;
  NoteOnStderr(absl::StrCat(job.Where("train.early_stopping"),
                            ": note: early stopping chooses by the test part, so what is ",
                            "reported of that part is too good; split.validation gives a part ",
                            "to choose by"));
}

absl::Status BeginSummaries(const TrainFlags& flags, const Given& given, runner::JobRunner* runner,
                            Summaries* summaries) {
  if (flags.tensorboard.empty()) return absl::OkStatus();
  const runner::TrainingMeter::Reading trained = runner->trained();
  const absl::Status begun = summaries->Begin(flags.tensorboard, trained.steps);
  if (!begun.ok()) {
    return config::ConfigurationError(absl::StrCat("--tensorboard: ", begun.message()));
  }
  if (trained.steps > 0) summaries->GoOn(trained, runner->evaluations());
  std::string job = given.job_text;
  for (const std::string& change : flags.overrides) absl::StrAppend(&job, "\n--set ", change);
  summaries->AddText("job", job);
  summaries->ShowRates(NamedRates(runner->strategy()->variables()));
  return absl::OkStatus();
}

// The report, the model and the result on the terminal of a job that is trained.
absl::Status Deliver(const TrainFlags& flags, const Given& given, const runner::JobResult& result,
                     const ReportOutput& report, const CheckpointManager* checkpoints,
                     Display* display, runner::JobRunner* runner) {
  // Written first: it is small, and describes the job even if the model cannot be saved.
  const absl::Status reported = report.Write(ToReportJson(result));
  if (!flags.model_dir.empty()) display->ShowProgress({runner::Progress::Phase::kSaving});
  const absl::Status saved = SaveResult(flags, given, result, checkpoints, runner);
  display->Clear();
  if (!flags.quiet) std::printf("%s", FormatResult(result).c_str());
  std::fflush(stdout);
  if (!saved.ok() && !reported.ok()) Complain(reported);
  RETURN_IF_ERROR(saved);
  return reported;
}

// `*resumable`: the job was interrupted and can go on.
absl::Status RunTraining(const TrainFlags& flags, const ReportOutput& report, Display* display,
                         bool* resumable) {
  if (flags.resume) InterruptedJobResumes(ResumeCommand(flags));
  ASSIGN_OR_RETURN(job::JobSpec job, ReadJob(flags.job, flags.overrides));
  ASSIGN_OR_RETURN(const TrainMetrics metrics, TrainMetrics::Listen(flags, job.name));
  job.dataset.set_example_ids(flags.count_visits);
  const auto names = model::NameMap::Parse(flags.init_map);
  if (!names.ok()) {
    return config::ConfigurationError(absl::StrCat("--init-map: ", names.status().message()));
  }
  Given given;
  ASSIGN_OR_RETURN(given.earlier, KeepKnownIds(flags, *names, &job));
  ASSIGN_OR_RETURN(given.job_text, config::ReadTextFile(flags.job));
  ASSIGN_OR_RETURN(cluster::ClusterConfig config, ReadWhere(flags.where));
  RETURN_IF_ERROR(CheckOutputs(flags, report.file(), job));
  const std::string daemons = config.ps.empty() ? "" : ClusterIdentity(config);
  ASSIGN_OR_RETURN(const auto checkpoints, OpenCheckpoints(job, flags, daemons));
  ClusterOptions options = MakeClusterOptions(job, flags.where);
  if (checkpoints != nullptr) options.min_epoch = checkpoints->min_epoch();
  // Shared: the cluster's thread may outlast the job's.
  const auto inputs = std::make_shared<KeptInputs>([display](const std::string& note) {
    display->Clear();
    std::fprintf(stderr, "%s\n", note.c_str());
  });
  options.on_event = [display, inputs](const ClusterEvent& e) {
    if (e.kind == ClusterEvent::Kind::kCheckpoint) inputs->CheckpointWritten();
    display->ShowEvent(e);
  };
  metrics.Follow(&options);
  display->set_log_every(job.train.log_every);
  ClusterReload reload(flags.where.cluster_file, [display](const std::string& text) {
    display->Clear();
    std::fprintf(stderr, "%s\n", text.c_str());
  });
  auto opened = OpenCluster(flags.where, std::move(config), std::move(options), &reload);
  if (!opened.ok()) return AsUsersMistake(opened.status());
  const Cluster cluster = *std::move(opened);
  const TrainMetrics::Watch watch = metrics.WatchCluster(cluster);
  RETURN_IF_ERROR(FindAgain(flags, checkpoints.get()));
  TellChanges(flags, given.job_text, job, checkpoints.get());
  std::unique_ptr<TraceSession> trace;
  if (!flags.trace.empty()) {
    ASSIGN_OR_RETURN(trace, TraceSession::Start(cluster, flags.trace));
  }
  Summaries summaries([display](const std::string& warning) {
    display->Clear();
    std::fprintf(stderr, "%s\n", warning.c_str());
  });
  runner::RunEvents events = MakeRunEvents(job, display, &summaries, inputs);
  metrics.Follow(&events);
  runner::JobRunner runner(cluster, job, std::move(events), checkpoints.get());
  runner.InitFrom({flags.init_from, *names, flags.init_slots != "none"});
  RETURN_IF_ERROR(AsUsersMistake(runner.Prepare()));
  metrics.Follow(runner.tracker());
  NoteTestPart(job);
  RETURN_IF_ERROR(CheckHeldOut(flags, given, runner));
  // Before, there is nothing to lose: a signal ends the process, however long reading takes.
  InterruptScope interrupts([&runner] { runner.Interrupt(); });
  RETURN_IF_ERROR(CheckModelDirectory(flags, ModelBytes(flags, &runner)));
  if (checkpoints != nullptr) {
    const std::string& directory = checkpoints->options().directory;
    inputs->Begin(directory, [&flags, &given, &runner, directory] {
      return model::SaveInputs(runner.data(), runner.job(), InfoOf(flags, given), directory);
    });
  }
  RETURN_IF_ERROR(BeginSummaries(flags, given, &runner, &summaries));
  absl::StatusOr<runner::JobResult> result = runner.Train();
  // After early stopping the last one was not shown.
  if (result.ok() && !result->evaluations.empty()) {
    summaries.AddEvaluation(result->evaluations.back());
  }
  summaries.Finish();
  inputs->Look();
  *resumable = runner.resumable();
  display->Clear();
  const absl::Status traced = FinishTrace(flags, trace.get());
  RETURN_IF_ERROR(result.status());
  RETURN_IF_ERROR(Deliver(flags, given, *result, report, checkpoints.get(), display, &runner));
  return traced;
}

}  // namespace

int Train(const TrainFlags& flags) {
  const auto report = ReportOutput::Open(flags.report);
  if (!report.ok()) return Complain(report.status());
  if (!flags.chaos.empty()) return RunUnderChaos(flags, *report);
  if (!flags.chaos_dir.empty()) {
    return Complain(config::ConfigurationError("--chaos-dir is for a run with --chaos"));
  }
  Display display(flags.quiet);
  bool resumable = false;
  const absl::Status status = RunTraining(flags, *report, &display, &resumable);
  display.Clear();
  if (status.ok()) return kExitDone;
  // Before it trained, a job that goes on has done nothing that could be lost.
  const auto detail = GetDetail(status);
  const bool not_there = detail && detail->cause == ErrorCause::kUnreachable;
  const bool not_begun =
      flags.resume && InterruptScope::interrupted() && (absl::IsCancelled(status) || not_there);
  if (resumable || not_begun) {
    if (!absl::IsCancelled(status)) Complain(status);
    return TellToResume(ResumeCommand(flags));
  }
  if (!InterruptScope::interrupted()) return Complain(status);
  if (absl::IsCancelled(status)) {
    std::fprintf(stderr, "interrupted\n");
  } else {
    Complain(status);
  }
  return kExitInterrupted;
}

}  // namespace coxswain::cli
