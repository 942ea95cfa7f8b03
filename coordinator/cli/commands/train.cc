// `coxswain train`
#include <memory>

#include "CLI/CLI.hpp"
#include "coordinator/cli/commands/shared_flags.h"
#include "runtime/env/process_limits.h"
#include "runtime/metrics/metrics_endpoint.h"

namespace coxswain::cli {

void AddTrainCommand(CLI::App& app, Run* run) {
  const auto flags = std::make_shared<TrainFlags>();
  CLI::App* c = app.add_subcommand("train", "Trains a job on a cluster");
  AddJob(c, &flags->job);
  auto* where =
      c->add_option_group("where", "Where the job runs; default: the cluster of TF_CONFIG");
  where->add_option("--cluster", flags->where.cluster_file, "on the daemons of this cluster file")
      ->type_name("FILE");
  CLI::Option* const local =
      where
          ->add_option("--local", flags->where.local,
                       "in processes on this machine, started and ended with the job: 2x3 for 2 "
                       "parameter servers and 3 workers")
          ->type_name("PSxW");
  CLI::Option* const in_process =
      where->add_flag("--in-process", flags->where.in_process,
                      "in this process, with 1 parameter server and 1 worker");
  where->require_option(0, 1);
  AddTrainFlags(c, flags, run);
  for (CLI::Option* const own : {local, in_process}) ExcludeCredentials(c, own);
  c->add_option("--threads", flags->where.threads,
                "compute threads of this process, or of each local worker; 0: by the machine's "
                "cores. Daemons have their own --threads")
      ->check(CLI::Range(0, env::kMostThreads))
      ->type_name("N")
      ->capture_default_str();
  CLI::Option* const trace =
      c->add_option("--trace", flags->trace,
                    "write a trace of what coordinator, workers and parameter servers do to this "
                    "file, for ui.perfetto.dev or chrome://tracing, see docs/performance.md")
          ->type_name("FILE");
  CLI::Option* const metrics =
      c->add_option(std::string(metrics::kFlag), flags->metrics,
                    "for Prometheus: answer GET /metrics with what this coordinator knows of the "
                    "job, to whoever can reach this address; port 0 picks a free one and prints "
                    "it, see docs/monitoring.md. Daemons have their own --metrics; those of "
                    "--local have none")
          ->type_name("HOST:PORT");
  c->add_option("--chaos", flags->chaos,
                "with --local: kill, stop and terminate the job's tasks and its coordinator by "
                "this schedule, and check the result, see docs/chaos.md")
      ->type_name("CHAOS.yaml")
      ->excludes(trace)
      ->excludes(metrics);
  c->add_flag("--count-visits", flags->count_visits,
              "count how often training uses each example, in a table of its own, for the report");
}

}  // namespace coxswain::cli
