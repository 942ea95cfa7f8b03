#include "tests/bench/recovery/recovery_command.h"

#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "tests/bench/recovery/recovery_report.h"
#include "tests/bench/scratch.h"

namespace coxswain {

CLI::App* AddRecoveryCommand(CLI::App* app, RecoveryFlags* flags) {
  CLI::App* c = app->add_subcommand(
      "recovery", "Kills and restarts a worker and a parameter server of a running job");
  c->add_option("--shape", flags->shape, "the job's step: talk, ctr, dlrm or sparse32");
  c->add_option("--rows", flags->rows, "rows of each table instead of the shape's")
      ->check(CLI::PositiveNumber);
  c->add_option("--cluster", flags->cluster, "PSxW processes on loopback (2x3; with --cost 2x2)");
  c->add_option("--in-flight", flags->in_flight, "closures that a worker is kept deep")
      ->check(CLI::Range(1, 1024));
  c->add_option("--threads", flags->threads, "compute threads of each worker (0: by cores)")
      ->check(CLI::NonNegativeNumber);
  c->add_option("--repeat", flags->repeat, "runs, or turns of each kind")
      ->check(CLI::Range(1, 100));
  c->add_option("--before", flags->before, "seconds of training before the kill")
      ->check(CLI::Range(1.0, 600.0));
  c->add_option("--down", flags->down, "seconds until the restart")->check(CLI::Range(1.0, 600.0));
  c->add_option("--after", flags->after, "seconds after the restart")
      ->check(CLI::Range(1.0, 600.0));
  c->add_option("--checkpoint-dir", flags->directory, "where checkpoints go and are removed");
  c->add_flag("--cost", flags->cost,
              "instead: what the log and checkpoints cost a step while nothing fails");
  c->add_option("--seconds", flags->seconds, "with --cost: of each turn")
      ->check(CLI::PositiveNumber);
  c->add_option("--every", flags->every, "with --cost: seconds between checkpoints")
      ->check(CLI::PositiveNumber);
  c->add_flag("--whole", flags->whole, "with --cost: checkpoints of all rows, none incremental");
  c->add_option("--kills", flags->kills,
                "with --cost: of workers, in each turn with the guarantees")
      ->check(CLI::Range(0, 1000));
  return c;
}

absl::Status RunRecovery(const RecoveryFlags& flags, WriteText write) {
  ASSIGN_OR_RETURN(StepShape shape, FindStepShape(flags.shape));
  if (shape.batch == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a step of '", shape.name, "' updates nothing; wanted one that does"));
  }
  for (TableShape& table : shape.tables) {
    if (flags.rows > 0) table.rows = flags.rows;
  }
  const std::string size = !flags.cluster.empty() ? flags.cluster : flags.cost ? "2x2" : "2x3";
  ASSIGN_OR_RETURN(const ClusterShape cluster, ParseClusterShape(size));
  if (cluster.in_process || (!flags.cost && cluster.workers < 2)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "wanted PSxW processes", flags.cost ? "" : ", two workers at least", "; found ", size));
  }
  Scratch scratch;
  RETURN_IF_ERROR(scratch.Make(flags.directory));
  FILE* table = flags.want_json && (flags.json.empty() || flags.json == "-") ? stderr : stdout;
  std::string text, json;
  if (flags.cost) {
    CostBench bench{shape,         cluster,      flags.in_flight, flags.threads, flags.every,
                    flags.seconds, flags.repeat, scratch.path(),  flags.whole,   flags.kills};
    ASSIGN_OR_RETURN(const CostFigures figures, MeasureCost(bench));
    text = CostTable(bench, figures);
    json = CostJson(bench, figures);
  } else {
    RecoveryBench bench{shape,        cluster.ps, cluster.workers, flags.in_flight, flags.threads,
                        flags.before, flags.down, flags.after,     scratch.path()};
    std::vector<RecoveryFigures> runs;
    for (int i = 0; i < flags.repeat; ++i) {
      ASSIGN_OR_RETURN(RecoveryFigures figures, MeasureRecovery(bench));
      runs.push_back(std::move(figures));
      std::fprintf(stderr, "run %d of %d\n", i + 1, flags.repeat);
    }
    text = RecoveryTable(bench, runs);
    json = RecoveryJson(bench, runs);
  }
  std::fputs(text.c_str(), table);
  return flags.want_json ? write(flags.json, json) : absl::OkStatus();
}

}  // namespace coxswain
