#include <cstdio>
#include <functional>

#include "CLI/CLI.hpp"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/interrupt.h"
#include "runtime/base/logging.h"
#include "runtime/base/version.h"

namespace {

using coxswain::EvalFlags;
using coxswain::ExplainFlags;
using coxswain::RecommendFlags;
using coxswain::TrainFlags;

void AddOverrides(CLI::App* command, std::vector<std::string>* overrides) {
  command->add_option("--set", *overrides, "change a key of the job: --set train.batch_size=256")
      ->allow_extra_args(false);
}

void AddTrain(CLI::App& app, TrainFlags* flags) {
  CLI::App* c = app.add_subcommand("train", "Trains a job on a cluster");
  c->add_option("JOB", flags->job, "the job (docs/job.md)")->required();
  auto* where = c->add_option_group("where", "where the job runs");
  where->add_option("--cluster", flags->where.cluster_file, "on the daemons of this cluster file");
  where->add_option("--local", flags->where.local,
                    "on processes of this machine: PSxW, for example 2x2");
  where->add_flag("--in-process", flags->where.in_process, "all in this process");
  where->require_option(1);
  AddOverrides(c, &flags->overrides);
  c->add_option("--report", flags->report, "write the report here (docs/report.md)");
  c->add_option("--model-dir", flags->model_dir, "save the model here");
  c->add_option("--connect-timeout", flags->where.connect_timeout,
                "seconds to wait for the cluster")
      ->check(CLI::PositiveNumber);
  c->add_option("--threads", flags->where.threads,
                "compute threads of this process or of each local worker (0: by cores)")
      ->check(CLI::NonNegativeNumber);
  c->add_flag("--quiet", flags->quiet, "print errors only");
}

}  // namespace

int main(int argc, char** argv) {
  coxswain::StartInterruptThread();
  coxswain::InitLogging("coordinator", coxswain::LogLevel::kWarning);
  CLI::App app("Coxswain: parameter-server training that survives preemption", "coxswain");
  app.require_subcommand(1);
  std::function<int()> run;

  TrainFlags train;
  AddTrain(app, &train);
  app.get_subcommand("train")->callback([&] { run = [&] { return coxswain::Train(train); }; });

  EvalFlags eval;
  CLI::App* c = app.add_subcommand("eval", "Evaluates a saved model");
  c->add_option("JOB", eval.job, "the job")->required();
  c->add_option("--model-dir", eval.model_dir, "the saved model")->required();
  AddOverrides(c, &eval.overrides);
  c->add_option("--report", eval.report, "write the metrics here as JSON");
  c->callback([&] { run = [&] { return coxswain::Eval(eval); }; });

  RecommendFlags recommend;
  c = app.add_subcommand("recommend", "Suggests items from a saved two_tower model");
  c->add_option("--model-dir", recommend.model_dir, "the saved model")->required();
  auto* whom = c->add_option_group("for", "for whom");
  whom->add_option("--user", recommend.groups, "users of the job's data");
  whom->add_option("--items", recommend.items, "or: known items, separated by commas")
      ->delimiter(',');
  whom->require_option(1);
  c->add_option("--top", recommend.top, "how many suggestions")->check(CLI::Range(1, 1000));
  c->callback([&] { run = [&] { return coxswain::Recommend(recommend); }; });

  ExplainFlags explain;
  c = app.add_subcommand("explain", "Shows a job's training function, placed and partitioned");
  c->add_option("JOB", explain.job, "the job")->required();
  c->add_option("--ps", explain.ps, "for so many parameter servers")->check(CLI::Range(1, 64));
  c->add_flag("--dot", explain.dot, "as a Graphviz graph");
  AddOverrides(c, &explain.overrides);
  c->callback([&] { run = [&] { return coxswain::Explain(explain); }; });

  std::string validate_job;
  std::vector<std::string> validate_overrides;
  bool no_data = false;
  c = app.add_subcommand("validate", "Checks a job file and the columns it names");
  c->add_option("JOB", validate_job, "the job")->required();
  c->add_flag("--no-data", no_data, "do not look at the data");
  AddOverrides(c, &validate_overrides);
  c->callback([&] {
    run = [&] { return coxswain::Validate(validate_job, validate_overrides, !no_data); };
  });

  std::string cluster_file;
  double timeout = 3;
  bool json = false;
  c = app.add_subcommand("status", "Shows who is in the cluster, who holds it and what runs");
  c->add_option("--cluster", cluster_file, "the cluster file")->required();
  c->add_option("--timeout", timeout, "seconds to wait for answers")->check(CLI::PositiveNumber);
  c->add_flag("--json", json, "as JSON");
  c->callback([&] { run = [&] { return coxswain::ShowStatus(cluster_file, timeout, json); }; });

  c = app.add_subcommand("version", "Prints the version");
  c->callback([&] {
    run = [] {
      std::printf("coxswain %s\n", coxswain::kVersion);
      return 0;
    };
  });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? coxswain::kExitDone : coxswain::kExitUsage;
  }
  return run();
}
