// The directory of a run; what has to hold before it begins (Check...); and the run with its
// baseline (ChaosRun).
#include "coordinator/cli/chaos_command.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/chaos/chaos_cluster.h"
#include "coordinator/chaos/chaos_spec.h"
#include "coordinator/chaos/summary.h"
#include "coordinator/chaos/supervisor.h"
#include "coordinator/cli/command_util.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/interrupt.h"
#include "coordinator/cli/open_cluster.h"
#include "coordinator/cli/outputs.h"
#include "coordinator/cli/read_as_data.h"
#include "coordinator/local/local_tasks.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/checkpoint/checkpoint_lock.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/config/yaml_reader.h"
#include "runtime/env/file_system.h"

namespace coxswain::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr absl::Duration kLook = absl::Milliseconds(50);
constexpr absl::Duration kGrace = absl::Seconds(60);  // for a job that was interrupted

// The directory of a run. A temporary one goes when everything went well.
class WorkDirectory {
 public:
  static absl::StatusOr<std::unique_ptr<WorkDirectory>> Make(const std::string& wanted) {
    auto work = std::make_unique<WorkDirectory>();
    work->temporary_ = wanted.empty();
    work->path_ = wanted;
    if (wanted.empty()) {
      std::error_code error;
      work->path_ = (fs::temp_directory_path(error) / "coxswain-chaos-XXXXXX").string();
      if (error || mkdtemp(work->path_.data()) == nullptr) {
        return absl::ErrnoToStatus(errno, "no temporary directory; give --chaos-dir");
      }
    }
    RETURN_IF_ERROR(env::NewRealFileSystem()->MakeDirs(work->Path("logs")));
    return work;
  }
  ~WorkDirectory() {
    std::error_code ignored;
    if (temporary_ && !keep_) fs::remove_all(path_, ignored);
  }

  std::string Path(absl::string_view name) const { return absl::StrCat(path_, "/", name); }
  const std::string& path() const { return path_; }
  void Keep() { keep_ = true; }

 private:
  std::string path_;
  bool temporary_ = false, keep_ = false;
};

// It is a directory of its own: what an earlier run left there is written over.
absl::Status CheckChaosDirectory(const std::string& directory) {
  if (directory.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckOutputDirectory("--chaos-dir", directory));
  const std::set<std::string> ours = {"logs", "checkpoints", "baseline-checkpoints",
                                      "baseline.json", "job.json"};
  ASSIGN_OR_RETURN(const auto names, env::NewRealFileSystem()->List(directory));
  for (const std::string& name : names) {
    if (ours.count(name) > 0) continue;
    return config::ConfigurationError(
        absl::StrCat("--chaos-dir ", directory, " holds ", name,
                     ", which no run left there: name a directory of its own"));
  }
  return absl::OkStatus();
}

absl::Status CheckFlags(const TrainFlags& flags) {
  if (flags.where.local.empty() == flags.where.cluster_file.empty()) {
    return config::ConfigurationError("--chaos goes with --local PSxW or --cluster FILE");
  }
  return absl::OkStatus();
}

absl::Status CheckOutputs(const TrainFlags& flags, const std::string& report_file,
                          const job::JobSpec& job) {
  std::vector<CommandInput> inputs = InputsOf(job);
  inputs.push_back({"the schedule of faults", flags.chaos});
  AddInputsOf(flags.where, &inputs);
  RETURN_IF_ERROR(CheckOutputFile("--report", report_file, OutputKind::kTrainingReport, inputs));
  const NamedPath report{"--report", report_file}, directory{"--chaos-dir", flags.chaos_dir};
  RETURN_IF_ERROR(CheckNotUnderFile(directory, report));
  const NamedPath model{"--model-dir", flags.model_dir},
      checkpoints{"--checkpoint-dir", flags.checkpoint_dir};
  for (const auto& [written, what] :
       {std::pair(directory, DirectoryOf::kChaos), std::pair(model, DirectoryOf::kModel),
        std::pair(checkpoints, DirectoryOf::kCheckpoints)}) {
    RETURN_IF_ERROR(CheckNotReadAsData(written, what, inputs));
  }
  RETURN_IF_ERROR(CheckNoInput(directory, inputs));
  // Those of the job's own flags are told by it, but the run without faults takes a while.
  for (const NamedPath& path : {report, directory, checkpoints}) {
    RETURN_IF_ERROR(CheckOutsideSaved(path));
  }
  RETURN_IF_ERROR(CheckModelOutsideSaved(model));
  RETURN_IF_ERROR(CheckSummaryDirectory({"--tensorboard", flags.tensorboard}, inputs));
  return CheckChaosDirectory(flags.chaos_dir);
}

// An older run's checkpoints would be taken for this one's.
absl::Status CheckNoCheckpoints(const std::string& directory, bool resume) {
  if (resume) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto there,
                   checkpoint::ListCheckpoints(env::NewRealFileSystem().get(), directory));
  if (there.empty()) return absl::OkStatus();
  return config::ConfigurationError(
      absl::StrCat(directory,
                   " has checkpoints already: remove what an earlier run left "
                   "there, or go on from them with --resume"));
}

// The job without faults begins anew: of what an earlier one left there the checkpoints go, which
// are of use to nobody else.
absl::Status RemoveCheckpoints(const std::string& directory) {
  const std::shared_ptr<env::FileSystem> files = env::NewRealFileSystem();
  if (!files->Exists(directory)) return absl::OkStatus();
  checkpoint::CheckpointHolder me;
  me.pid = getpid();
  ASSIGN_OR_RETURN(const auto lock, checkpoint::LockCheckpoints(files, directory, me));
  ASSIGN_OR_RETURN(const auto names, files->List(directory));
  for (const std::string& name : names) {
    if (!checkpoint::ParseCheckpointName(name)) continue;
    RETURN_IF_ERROR(files->RemoveAll(absl::StrCat(directory, "/", name)));
  }
  return absl::OkStatus();
}

class ChaosRun {
 public:
  ChaosRun(const TrainFlags& flags, const ReportOutput& report) : flags_(flags), report_(report) {}

  absl::StatusOr<int> Run() {
    RETURN_IF_ERROR(CheckFlags(flags_));
    ASSIGN_OR_RETURN(spec_, chaos::ParseChaosFile(flags_.chaos));
    ASSIGN_OR_RETURN(const job::JobSpec job, ReadJob(flags_.job, flags_.overrides));
    RETURN_IF_ERROR(CheckOutputs(flags_, report_.file(), job));
    if (spec_.visitation && job.dataset.per_worker()) {
      return config::ConfigurationError(absl::StrCat(
          flags_.chaos, ": visitation: the job has train.visitation: per_worker, which promises ",
          "nothing about examples; wanted false here"));
    }
    if (!flags_.where.local.empty()) {
      ASSIGN_OR_RETURN(size_, local::ParseLocalSize(flags_.where.local));
      RETURN_IF_ERROR(chaos::CheckTargets(spec_, size_.ps, size_.workers));
    }
    ASSIGN_OR_RETURN(programs_, local::ProgramDirectory());
    ASSIGN_OR_RETURN(work_, WorkDirectory::Make(flags_.chaos_dir));
    checkpoints_ =
        flags_.checkpoint_dir.empty() ? work_->Path("checkpoints") : flags_.checkpoint_dir;
    RETURN_IF_ERROR(CheckNoCheckpoints(checkpoints_, flags_.resume));
    RETURN_IF_ERROR(ShareCredentials());
    InterruptScope interrupts([this] { interrupted_.store(true); });
    if (spec_.baseline) {
      ASSIGN_OR_RETURN(const int code, RunBaseline());
      if (code != kExitDone) return code;
    }
    Say("now the job under fire");
    ASSIGN_OR_RETURN(const chaos::SupervisorResult result, RunSupervised());
    return Conclude(result);
  }

  // Where to look when something went wrong.
  void SayLogs() const {
    if (work_ == nullptr) return;
    work_->Keep();
    std::fprintf(stderr, "logs and checkpoints: %s\n", work_->path().c_str());
  }

 private:
  // Of daemons that are started here a new one, in a file that they find in their environment, as
  // the job does, also when they are started again.
  absl::Status ShareCredentials() {
    const net::CredentialOptions& given = flags_.where.credentials;
    std::string file = given.secret.file;
    if (!flags_.where.local.empty()) {
      file = work_->Path("logs/secret");
      const absl::Status made = net::MakeSecretFile(file);
      if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
    }
    const auto share = [](const char* variable, const std::string& value) {
      if (!value.empty()) setenv(variable, value.c_str(), /*overwrite=*/1);
    };
    share("COXSWAIN_SECRET_FILE", file);
    share("COXSWAIN_TLS_DIR", given.tls.directory);
    share("COXSWAIN_TLS_NAME", given.tls.name);
    const bool insecure = given.secret.insecure && flags_.where.local.empty();
    ASSIGN_OR_RETURN(credentials_, net::FindCredentials({{file, insecure}, given.tls}));
    return absl::OkStatus();
  }

  void Say(const std::string& text) const {
    if (!flags_.quiet) std::fprintf(stderr, "chaos %s\n", text.c_str());
  }

  std::vector<std::string> Train(const std::vector<std::string>& where, const std::string& report,
                                 const std::string& checkpoints) const {
    std::vector<std::string> command = {
        programs_ + "/coxswain", "train",    flags_.job, "--report", report,
        "--checkpoint-dir",      checkpoints};
    command.insert(command.end(), where.begin(), where.end());
    for (const std::string& o : flags_.overrides) {
      command.insert(command.end(), {"--set", o});
    }
    command.insert(command.end(),
                   {"--connect-timeout", absl::StrCat(flags_.where.connect_timeout)});
    // Often, unless told otherwise: a run under faults is short.
    command.insert(command.end(),
                   {"--checkpoint-every", absl::StrCat(flags_.checkpoint_every.value_or(3))});
    if (credentials_.secret.empty()) command.push_back("--insecure");
    if (spec_.visitation) command.push_back("--count-visits");
    if (!flags_.init_from.empty()) {
      command.insert(command.end(), {"--init-from", flags_.init_from});
    }
    for (const std::string& entry : flags_.init_map) {
      command.insert(command.end(), {"--init-map", entry});
    }
    if (flags_.init_slots != "auto") {
      command.insert(command.end(), {"--init-slots", flags_.init_slots});
    }
    if (flags_.allow_training_rows) command.push_back("--allow-training-rows");
    if (flags_.quiet) command.push_back("--quiet");
    return command;
  }

  // One that has ended before ends again at once, and reports the same.
  absl::StatusOr<int> RunBaseline() {
    Say("first, the job without faults");
    const std::string report = work_->Path("baseline.json");
    const std::string checkpoints = work_->Path("baseline-checkpoints");
    if (!flags_.resume) RETURN_IF_ERROR(RemoveCheckpoints(checkpoints));
    const bool local = !flags_.where.local.empty();
    local::ChildOptions options;
    options.command = Train(
        {local ? "--local" : "--cluster", local ? flags_.where.local : flags_.where.cluster_file},
        report, checkpoints);
    if (flags_.resume) options.command.push_back("--resume");
    if (local) {
      options.command.insert(options.command.end(),
                             {"--threads", absl::StrCat(flags_.where.threads)});
    }
    options.death_signal = SIGKILL;
    auto child = local::Child::Start(options);
    if (!child.ok()) return Complain(child.status());
    while (!child->WaitFor(kLook)) {
      if (!interrupted_.load()) continue;
      child->Signal(SIGTERM);
      child->WaitFor(kGrace);
      return child->Poll() == kExitResumable ? kExitResumable : kExitInterrupted;
    }
    const int code = child->Poll().value_or(kExitJobFailed);
    if (code == kExitDone) baseline_ = ReadReport(report);
    if (code != kExitDone) std::fprintf(stderr, "the job ends so without any fault\n");
    return code;
  }

  absl::StatusOr<chaos::ChaosCluster> OpenCluster() {
    if (flags_.where.local.empty()) {
      ASSIGN_OR_RETURN(chaos::ChaosCluster cluster,
                       chaos::ChaosCluster::Adopt(flags_.where.cluster_file, credentials_,
                                                  absl::Seconds(flags_.where.connect_timeout)));
      RETURN_IF_ERROR(chaos::CheckTargets(spec_, static_cast<int>(cluster.ps().size()),
                                          static_cast<int>(cluster.workers().size())));
      return cluster;
    }
    const int threads =
        flags_.where.threads > 0 ? flags_.where.threads : local::ThreadsPerWorker(size_.workers);
    return chaos::ChaosCluster::Start(size_.ps, size_.workers, threads, programs_, credentials_,
                                      work_->Path("logs"));
  }

  absl::StatusOr<chaos::SupervisorResult> RunSupervised() {
    ASSIGN_OR_RETURN(chaos::ChaosCluster cluster, OpenCluster());
    chaos::SupervisorOptions options;
    options.spec = spec_;
    options.checkpoint_directory = checkpoints_;
    options.resume = flags_.resume;
    options.interrupted = &interrupted_;
    options.say = [this](const std::string& text) { Say(text); };
    options.command = [this, &cluster](bool resume) {
      std::vector<std::string> command =
          Train({"--cluster", cluster.file()}, work_->Path("job.json"), checkpoints_);
      if (!flags_.model_dir.empty()) {
        command.insert(command.end(), {"--model-dir", flags_.model_dir});
        if (flags_.model_slots) command.push_back("--model-slots");
      }
      if (!flags_.tensorboard.empty()) {
        command.insert(command.end(), {"--tensorboard", flags_.tensorboard});
      }
      if (resume) command.push_back("--resume");
      return command;
    };
    chaos::Supervisor supervisor(&cluster, std::move(options));
    return supervisor.Run();
  }

  absl::StatusOr<int> Conclude(const chaos::SupervisorResult& result) {
    if (result.interrupted) {
      std::fprintf(stderr, "interrupted\n");
      return result.code == kExitDone ? static_cast<int>(kExitInterrupted) : result.code;
    }
    const chaos::ChaosSummary summary = chaos::Summarize(
        spec_, result, result.code == kExitDone ? ReadReport(work_->Path("job.json")) : Json(),
        baseline_);
    std::fflush(stdout);
    if (!flags_.quiet || !summary.broken.empty()) {
      std::printf("%s", chaos::FormatSummary(summary).c_str());
    }
    if (summary.report.is_object()) {
      RETURN_IF_ERROR(
          report_.Write(summary.report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"));
    }
    if (result.code != kExitDone) {
      // The job's own codes are below 128; a signal's or a start that failed is a failed job.
      return result.code > 1 && result.code < 128 ? result.code : static_cast<int>(kExitJobFailed);
    }
    return static_cast<int>(summary.broken.empty() ? kExitDone : kExitJobFailed);
  }

  // Null when there is none.
  static Json ReadReport(const std::string& path) {
    const auto text = config::ReadTextFile(path, size_t{1} << 30);
    if (!text.ok()) return nullptr;
    Json report = Json::parse(*text, nullptr, false);
    return report.is_object() ? report : Json();
  }

  const TrainFlags flags_;
  const ReportOutput& report_;
  chaos::ChaosSpec spec_;
  local::LocalSize size_;
  net::Credentials credentials_;
  std::string programs_, checkpoints_;
  std::unique_ptr<WorkDirectory> work_;
  Json baseline_;
  std::atomic<bool> interrupted_{false};
};

}  // namespace

int RunUnderChaos(const TrainFlags& flags, const ReportOutput& report) {
  ChaosRun run(flags, report);
  auto code = run.Run();
  if (!code.ok()) {
    code = Complain(code.status());
  }
  if (*code != kExitDone) run.SayLogs();
  return *code;
}

}  // namespace coxswain::cli
