#include "coordinator/cli/commands.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "coordinator/api/cluster.h"
#include "coordinator/cli/display.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/interrupt.h"
#include "coordinator/core/observer.h"
#include "coordinator/job/check_columns.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/model/saved_model.h"
#include "coordinator/runner/runner.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/config/yaml_reader.h"
#include "runtime/env/file_system.h"

namespace coxswain {
namespace {

int Complain(const absl::Status& status) {
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return ToExitCode(status);
}

absl::Status AsConfiguration(const absl::Status& status) {
  if (status.ok() || GetDetail(status)) return status;
  return WithDetail(status, {ErrorCause::kConfiguration, false, "", 0});
}

absl::StatusOr<JobSpec> ReadJob(const std::string& path,
                                const std::vector<std::string>& overrides) {
  auto job = ParseJobFile(path, overrides);
  if (!job.ok()) return AsConfiguration(job.status());
  RETURN_IF_ERROR(CheckColumns(*job));
  return job;
}

// Whether `flag`'s path can be written, as far as one can tell without writing: who trains for
// hours wants to know before. With `make_directories` what is missing of the path will be made.
absl::Status CheckWritable(absl::string_view flag, const std::string& path, bool make_directories) {
  namespace fs = std::filesystem;
  if (path.empty()) return absl::OkStatus();
  const auto no = [&](absl::string_view why) {
    return absl::FailedPreconditionError(
        absl::StrCat(flag, " ", path, " cannot be written: ", why));
  };
  std::error_code ignored;
  if (!make_directories && (path.back() == '/' || fs::is_directory(path, ignored))) {
    return no("it is a directory");
  }
  fs::path folder = fs::absolute(path, ignored).lexically_normal();
  if (folder.filename().empty()) folder = folder.parent_path();  // "model/"
  folder = folder.parent_path();
  while (make_directories && !fs::exists(folder, ignored) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  if (fs::exists(folder, ignored) && !fs::is_directory(folder, ignored)) {
    return no(absl::StrCat(folder.string(), " is no directory"));
  }
  if (access(folder.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return no(absl::StrCat(folder.string(), ": ", std::strerror(errno)));
}

absl::StatusOr<Cluster> OpenCluster(const Where& where, int in_flight) {
  ClusterOptions options;
  options.closures_in_flight = in_flight;
  options.connect_timeout = absl::Seconds(where.connect_timeout);
  options.threads = where.threads;
  if (!where.cluster_file.empty()) {
    auto config = ReadClusterConfig(where.cluster_file);
    if (!config.ok()) return AsConfiguration(config.status());
    return Cluster::Connect(*config, options);
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
  const std::vector<std::string> counts = absl::StrSplit(where.local, 'x');
  int ps = 0, workers = 0;
  if (counts.size() != 2 || !absl::SimpleAtoi(counts[0], &ps) ||
      !absl::SimpleAtoi(counts[1], &workers) || ps < 1 || workers < 1) {
    return ConfigurationError(absl::StrCat("--local ", where.local,
                                           ": wanted PSxW, for example 2x2 for two parameter "
                                           "servers and two workers"));
  }
  return Cluster::Local(ps, workers, options);
}

absl::Status WriteReport(const std::string& path, const std::string& text) {
  if (path.empty()) return absl::OkStatus();
  return NewRealFileSystem()->WriteAtomically(path, text);
}

// A cluster of this process with the saved values in it.
absl::StatusOr<std::unique_ptr<JobRunner>> OpenModel(JobSpec job, const std::string& directory) {
  ASSIGN_OR_RETURN(Cluster cluster, Cluster::InProcess(1, 1));
  auto runner = std::make_unique<JobRunner>(cluster, std::move(job), RunEvents{});
  RETURN_IF_ERROR(runner->Prepare());
  RETURN_IF_ERROR(LoadVariables(directory, runner->strategy()));
  return runner;
}

absl::Status RunTraining(const TrainFlags& flags, Display* display) {
  ASSIGN_OR_RETURN(JobSpec job, ReadJob(flags.job, flags.overrides));
  ASSIGN_OR_RETURN(std::string job_text, ReadTextFile(flags.job));
  RETURN_IF_ERROR(CheckWritable("--report", flags.report, /*make_directories=*/false));
  RETURN_IF_ERROR(CheckWritable("--model-dir", flags.model_dir, /*make_directories=*/true));
  ASSIGN_OR_RETURN(Cluster cluster, OpenCluster(flags.where, job.train.closures_in_flight));
  display->set_log_every(job.train.log_every);
  RunEvents events;
  events.on_progress = [display](const Progress& p) { display->ShowProgress(p); };
  events.on_evaluation = [display](const Evaluation& e) { display->ShowEvaluation(e); };
  JobRunner runner(cluster, job, std::move(events));
  InterruptScope interrupts([&runner] { runner.Interrupt(); });
  RETURN_IF_ERROR(runner.Prepare());
  ASSIGN_OR_RETURN(JobResult result, runner.Train());
  if (!flags.model_dir.empty()) {
    display->ShowProgress({Progress::Phase::kSaving});
    SavedModelInfo info;
    info.job_text = job_text;
    // Absolute: the model may be used from any directory.
    std::error_code ignored;
    info.job_file = std::filesystem::absolute(flags.job, ignored).string();
    info.overrides = flags.overrides;
    info.steps = result.steps;
    info.metrics = result.metrics;
    RETURN_IF_ERROR(SaveModel(runner.strategy(), runner.data(), job, info, flags.model_dir));
  }
  display->Clear();
  RETURN_IF_ERROR(WriteReport(flags.report, ToReportJson(result)));
  if (!flags.quiet) std::printf("%s", FormatResult(result).c_str());
  return absl::OkStatus();
}

}  // namespace

int Train(const TrainFlags& flags) {
  Display display(flags.quiet);
  const absl::Status status = RunTraining(flags, &display);
  display.Clear();
  if (status.ok()) return kExitDone;
  if (InterruptScope::interrupted()) {
    std::fprintf(stderr, "interrupted\n");
    return kExitInterrupted;
  }
  return Complain(status);
}

int Eval(const EvalFlags& flags) {
  auto job = ReadJob(flags.job, flags.overrides);
  if (!job.ok()) return Complain(job.status());
  if (auto info = ReadModelInfo(flags.model_dir); !info.ok()) {
    return Complain(AsConfiguration(info.status()));
  }
  auto runner = OpenModel(*std::move(job), flags.model_dir);
  if (!runner.ok()) return Complain(runner.status());
  auto evaluation = (*runner)->Evaluate();
  if (!evaluation.ok()) return Complain(evaluation.status());
  for (const auto& [name, value] : evaluation->metrics) {
    std::printf("%s  %.4f  (%s, %s examples)\n", name.c_str(), value, evaluation->part.c_str(),
                WithCommas(evaluation->examples).c_str());
  }
  nlohmann::ordered_json report = {{"job", (*runner)->job().name},
                                   {"part", evaluation->part},
                                   {"examples", evaluation->examples},
                                   {"metrics", evaluation->metrics}};
  if (absl::Status s = WriteReport(flags.report, report.dump(2) + "\n"); !s.ok())
    return Complain(s);
  return kExitDone;
}

int Recommend(const RecommendFlags& flags) {
  auto info = ReadModelInfo(flags.model_dir);
  if (!info.ok()) return Complain(AsConfiguration(info.status()));
  auto job = ReadJob(info->job_file, info->overrides);
  if (!job.ok()) return Complain(job.status());
  auto runner = OpenModel(*std::move(job), flags.model_dir);
  if (!runner.ok()) return Complain(runner.status());
  if (!flags.items.empty()) {
    auto suggestions = (*runner)->RecommendFor(flags.items, flags.top);
    if (!suggestions.ok()) return Complain(AsConfiguration(suggestions.status()));
    for (const std::string& item : suggestions->items) std::printf("%s\n", item.c_str());
    return kExitDone;
  }
  auto suggestions = (*runner)->Recommend(flags.groups, flags.top);
  if (!suggestions.ok()) return Complain(AsConfiguration(suggestions.status()));
  std::printf("%s", FormatSuggestions(*suggestions).c_str());
  if (suggestions->size() == flags.groups.size()) return kExitDone;
  for (const std::string& group : flags.groups) {
    if (!(*runner)->data().FindGroup(group)) {
      std::fprintf(stderr, "error: '%s' is not in the job's data\n", group.c_str());
    }
  }
  return kExitUsage;
}

int Explain(const ExplainFlags& flags) {
  auto job = ReadJob(flags.job, flags.overrides);
  if (!job.ok()) return Complain(job.status());
  auto cluster = Cluster::InProcess(flags.ps, 1);
  if (!cluster.ok()) return Complain(AsConfiguration(cluster.status()));
  JobRunner runner(*cluster, *std::move(job), RunEvents{});
  if (absl::Status s = runner.Prepare(); !s.ok()) return Complain(s);
  auto function = runner.TrainFunction();
  if (!function.ok()) return Complain(function.status());
  std::printf("%s", (flags.dot ? PartitionToDot(function->partition())
                               : PartitionToText(function->partition()))
                        .c_str());
  return kExitDone;
}

int Validate(const std::string& path, const std::vector<std::string>& overrides, bool data) {
  auto job = ParseJobFile(path, overrides);
  if (!job.ok()) return Complain(AsConfiguration(job.status()));
  if (data) {
    if (absl::Status s = CheckColumns(*job); !s.ok()) return Complain(s);
  }
  std::printf("%s: job '%s' is valid\n", path.c_str(), job->name.c_str());
  return kExitDone;
}

int ShowStatus(const std::string& cluster_file, double timeout_seconds, bool as_json) {
  auto config = ReadClusterConfig(cluster_file);
  if (!config.ok()) return Complain(AsConfiguration(config.status()));
  const auto transport = NewGrpcTransport();
  std::vector<std::string> addresses = config->ps;
  addresses.insert(addresses.end(), config->workers.begin(), config->workers.end());
  const auto answers = ObserveTasks(transport.get(), addresses, absl::Seconds(timeout_seconds));
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  size_t there = 0;
  if (!as_json)
    std::printf("%-10s %-22s %-24s %12s %14s  %s\n", "task", "address", "held by", "rows", "bytes",
                "doing");
  for (size_t i = 0; i < answers.size(); ++i) {
    const bool ps = i < config->ps.size();
    const std::string task = absl::StrCat(ps ? "ps:" : "worker:", ps ? i : i - config->ps.size());
    nlohmann::ordered_json entry = {{"task", task}, {"address", addresses[i]}};
    if (!answers[i].ok()) {
      entry["error"] = std::string(answers[i].status().message());
      if (!as_json)
        std::printf("%-10s %-22s not there: %s\n", task.c_str(), addresses[i].c_str(),
                    entry["error"].get<std::string>().c_str());
    } else {
      ++there;
      const proto::TaskStatus& s = *answers[i];
      entry["version"] = s.version();
      entry["incarnation"] = s.incarnation();
      entry["held_by"] = s.held_by();
      entry["held_since"] = s.held_since();
      entry["running"] = s.running();
      entry["rows"] = s.rows();
      entry["bytes"] = s.bytes();
      entry["uptime_seconds"] = s.uptime_seconds();
      if (!as_json) {
        std::printf("%-10s %-22s %-24s %12s %14s  %s\n", task.c_str(), addresses[i].c_str(),
                    s.held_by().empty() ? "-" : s.held_by().c_str(), WithCommas(s.rows()).c_str(),
                    WithCommas(s.bytes()).c_str(),
                    s.running().empty() ? "waiting for a coordinator" : s.running().c_str());
      }
    }
    json.push_back(std::move(entry));
  }
  if (as_json) std::printf("%s\n", json.dump(2).c_str());
  return there == answers.size() ? kExitDone : kExitUnreachable;
}

}  // namespace coxswain
