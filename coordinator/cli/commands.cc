// Short commands: eval of a saved model, explain, validate, a new secret.
#include "coordinator/cli/commands.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "coordinator/cli/command_util.h"
#include "coordinator/cli/data_summary.h"
#include "coordinator/cli/display.h"
#include "coordinator/cli/eval_follow_command.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/held_out.h"
#include "coordinator/cli/open_cluster.h"
#include "coordinator/cli/open_model.h"
#include "coordinator/cli/outputs.h"
#include "coordinator/cli/read_as_data.h"
#include "coordinator/cli/report_output.h"
#include "coordinator/job/check_columns.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/job/size_limits.h"
#include "coordinator/model/saved_learned.h"
#include "coordinator/model/saved_model.h"
#include "coordinator/observe/observer.h"
#include "coordinator/runner/data_checks.h"
#include "coordinator/runner/runner.h"
#include "coxswain/cluster.h"
#include "nlohmann/json.hpp"
#include "protos/control.pb.h"
#include "runtime/base/mistake.h"
#include "runtime/base/status.h"
#include "runtime/cluster/cluster_config.h"
#include "runtime/device/open_devices.h"
#include "runtime/function/partition.h"
#include "runtime/function/place_on_devices.h"
#include "runtime/graph/op.h"

namespace coxswain::cli {
namespace {

void Note(const std::string& text) {
  if (!text.empty()) std::fprintf(stderr, "note: %s\n", text.c_str());
}

absl::Status CheckEvalReport(const std::string& path, const EvalFlags& flags,
                             const job::JobSpec& job) {
  if (path.empty()) return absl::OkStatus();
  std::vector<CommandInput> inputs = InputsOf(job);
  for (CommandInput& origin : OriginsOf(flags.from)) inputs.push_back(std::move(origin));
  AddInputsOf(flags.where, &inputs);
  RETURN_IF_ERROR(CheckOutputFile("--report", path, OutputKind::kEvaluationReport, inputs));
  return CheckOutsideSaved({"--report", path});
}

// Given for this command, the key would have no effect: it is of evaluations while a job trains.
absl::Status CheckPartKey(const job::JobSpec& job, const std::vector<std::string>& overrides) {
  if (!IsGivenBy(overrides, job, "evaluate.part")) return absl::OkStatus();
  return config::ConfigurationError(absl::StrCat(
      job.Where("evaluate.part"), ": evaluate.part is for training and for --follow; --part says ",
      "which part a saved model is evaluated on"));
}

Part PartOf(const EvalFlags& flags, const runner::JobRunner& runner) {
  if (flags.part.empty()) return runner.FinalPart();
  return flags.part == "test" ? Part::kTest : Part::kValidation;
}

void PrintMetrics(const runner::Evaluation& evaluation) {
  const std::string of =
      evaluation.counts.empty()
          ? absl::StrCat(evaluation.part, ", ", WithCommas(evaluation.examples), " examples")
          : FormatWordCounts(evaluation.counts);
  for (const auto& [name, value] : evaluation.metrics) {
    std::printf("%s  %s  (%s)\n", name.c_str(), FormatMetric(evaluation, name).c_str(), of.c_str());
  }
}

}  // namespace

int Eval(const EvalFlags& flags) {
  if (!flags.follow.empty()) return EvalFollow(flags);
  const std::string kept = KeptIn(flags.from);
  if (auto info = model::ReadModelInfo(kept, KeptAs(flags.from)); !info.ok()) {
    return Complain(AsConfiguration(info.status()));
  }
  const auto report_output = ReportOutput::Open(flags.report);
  if (!report_output.ok()) return Complain(report_output.status());
  auto job = ReadEvaluatedJob(flags.job, kept, flags.overrides, KeptAs(flags.from));
  if (!job.ok()) return Complain(AsUsersMistake(job.status()));
  if (absl::Status s = CheckPartKey(job->job, flags.overrides); !s.ok()) return Complain(s);
  if (absl::Status s = CheckEvalReport(report_output->file(), flags, job->job); !s.ok()) {
    return Complain(s);
  }
  auto model = OpenModel(*std::move(job), flags.from, flags.where);
  if (!model.ok()) return Complain(model.status());
  runner::JobRunner* const runner = model->runner.get();
  Note(ChangeSinceTraining(model->trained, runner->data()));
  const Part part = PartOf(flags, *runner);
  const HeldOut held_out =
      IsHeldOut("", model->trained, runner->job(), runner->data(), runner->ScoredPart(part));
  if (!held_out.sure && held_out.refuse && !flags.allow_training_rows) {
    return Complain(NotHeldOut("", held_out));
  }
  if (!held_out.sure) Note(held_out.why);
  auto evaluation = runner->EvaluatePart(part, /*sliced=*/true);
  if (!evaluation.ok()) return Complain(evaluation.status());
  if (evaluation->examples == 0 && evaluation->counts.empty()) {
    return Complain(config::ConfigurationError(absl::StrCat(
        "there is nothing to evaluate: the ", evaluation->part,
        " part has no rows; a job with a `split` that keeps some can be given (eval JOB.yaml)")));
  }
  PrintMetrics(*evaluation);
  std::printf("%s", FormatSlices(evaluation->slices).c_str());
  nlohmann::ordered_json report = {{"job", runner->job().name},
                                   {"part", evaluation->part},
                                   {"held_out", held_out.sure},
                                   {"examples", evaluation->examples},
                                   {"metrics", evaluation->metrics}};
  if (!evaluation->intervals.empty()) report["intervals"] = IntervalsJson(evaluation->intervals);
  if (!evaluation->slices.empty()) report["slices"] = SlicesJson(evaluation->slices);
  if (absl::Status s = report_output->Write(
          report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
      !s.ok())
    return Complain(s);
  return kExitDone;
}

namespace {

// The partition with its worker's part as on a GPU that has code for all ops.
absl::StatusOr<function::Partition> OnGpu(const function::Partition& partition) {
  const graph::OpRegistry& ops = *partition.worker.graph.registry();
  function::Partition placed = partition;
  ASSIGN_OR_RETURN(placed.worker, function::PlaceOnDevices(partition.worker, /*devices=*/1,
                                                           [&](const graph::Node& node) {
                                                             return ops.HasKernel(node.op);
                                                           }));
  return placed;
}

absl::Status NothingOnGpu(const job::JobSpec& job) {
  return config::ConfigurationError(
      job.train.deterministic
          ? absl::StrCat(job.Where("train.deterministic"), ": --gpu: with train.deterministic the ",
                         "workers' parts run on their CPUs")
          : absl::StrCat(job.Where("train.device"), ": --gpu: with train.device: cpu the workers' ",
                         "parts run on their CPUs; wanted auto or gpu"));
}

}  // namespace

int Explain(const ExplainFlags& flags) {
  auto job = ReadJob(flags.job, flags.overrides);
  if (!job.ok()) return Complain(job.status());
  if (flags.gpu && job->train.device == DeviceChoice::kCpu) return Complain(NothingOnGpu(*job));
  job->train.device = DeviceChoice::kAuto;  // nothing is run, here or elsewhere
  // Tables that are to be in a GPU's memory are made in one that is none, as on every machine.
  const bool tables = absl::c_any_of(job->tables, [](const auto& t) { return t.device == "gpu"; });
  setenv(device::kGpusVariable, tables ? "fake" : "none", /*overwrite=*/1);
  auto cluster = Cluster::InProcess(flags.ps, 1);
  if (!cluster.ok()) return Complain(AsConfiguration(cluster.status()));
  runner::JobRunner runner(*cluster, *std::move(job), runner::RunEvents{});
  if (absl::Status s = runner.Prepare(); !s.ok()) return Complain(s);
  auto function = runner.TrainFunction();
  if (!function.ok()) return Complain(function.status());
  absl::StatusOr<function::Partition> shown = function->partition();
  if (flags.gpu) shown = OnGpu(*shown);
  if (!shown.ok()) return Complain(shown.status());
  std::printf(
      "%s",
      (flags.dot ? function::PartitionToDot(*shown) : function::PartitionToText(*shown)).c_str());
  return kExitDone;
}

namespace {

// Of rows that cannot be read it says the first few and how many there are, where it can.
absl::StatusOr<std::unique_ptr<data::Dataset>> LoadToValidate(const proto::DatasetSpec& spec) {
  auto dataset = data::Dataset::Load(spec);
  if (!absl::IsInvalidArgument(dataset.status())) return dataset;
  proto::DatasetSpec lenient = spec;
  lenient.set_max_bad_rows(job::kMostBadRows);
  const auto again = data::Dataset::Load(lenient);
  if (!again.ok() || (*again)->bad_rows().count <= spec.max_bad_rows()) return dataset;
  return absl::InvalidArgumentError(
      absl::StrCat("dataset.max_bad_rows: wanted at most ", spec.max_bad_rows(),
                   " rows that cannot be read, found ", (*again)->bad_rows().count, ":\n",
                   DescribeBadRows((*again)->bad_rows())));
}

}  // namespace

int Validate(const std::string& path, const std::vector<std::string>& overrides,
             ValidateData data) {
  auto job = job::ParseJobFile(path, overrides);
  if (!job.ok()) return Complain(AsConfiguration(job.status()));
  std::string summary;
  if (absl::Status s = CheckCacheNotReadAsData(*job); !s.ok()) return Complain(s);
  if (data != ValidateData::kNothing) {
    if (absl::Status s = job::CheckColumns(*job); !s.ok()) return Complain(s);
  }
  if (data == ValidateData::kAll) {
    const auto dataset = LoadToValidate(job->dataset);
    if (!dataset.ok()) return Complain(AsMistake(dataset.status()));
    if (absl::Status s = runner::CheckTestFiles(*job); !s.ok()) return Complain(s);
    if (absl::Status s = runner::CheckTrainingData(*job, **dataset); !s.ok()) return Complain(s);
    if (auto words = runner::ReadWordTests(*job, **dataset); !words.ok())
      return Complain(words.status());
    const auto joins = data::CountJoins(job->dataset);
    if (!joins.ok()) return Complain(AsMistake(joins.status()));
    summary = DescribeData(*job, **dataset) + DescribeJoins(*job, *joins);
  } else if (job->follow.enabled) {
    summary = "the files that have come so far were not read; --data reads them\n";
  }
  std::printf("%s: job '%s' is valid\n%s", path.c_str(), job->name.c_str(), summary.c_str());
  return kExitDone;
}

int MakeSecret(const std::string& path) {
  if (absl::Status s = CheckOfThisMachine("make-secret", path); !s.ok()) return Complain(s);
  if (absl::Status s = net::MakeSecretFile(path); !s.ok()) return Complain(s);
  std::printf("%s: a new secret. Give it to all machines of the cluster, and to nobody else\n",
              path.c_str());
  return kExitDone;
}

int MakeCertificates(const std::string& directory, const std::string& name, int days) {
  if (absl::Status s = CheckOfThisMachine("make-certificates", directory); !s.ok()) {
    return Complain(s);
  }
  const absl::Duration lifetime = absl::Hours(24) * days;
  if (absl::Status s = net::MakeCertificates(directory, name, lifetime); !s.ok()) {
    return Complain(s);
  }
  std::printf(
      "%s: ca.crt, tls.crt and tls.key for '%s', good for %d days. Give the directory to all "
      "machines of the cluster, and its tls.key to nobody else\n",
      directory.c_str(), name.c_str(), days);
  return kExitDone;
}

}  // namespace coxswain::cli
