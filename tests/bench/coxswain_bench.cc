// Benchmarks of whole steps: tests/bench/README.md says what they measure.
//
//   coxswain-bench step [SHAPE...] [--cluster C...] [--seconds S] [--pack K] [--in-flight K] ...
//   coxswain-bench recovery [--cost] [--shape SHAPE] [--cluster PSxW] [--repeat N] ...
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "tests/bench/recovery/recovery_command.h"
#include "tests/bench/step/report.h"

namespace coxswain {
namespace {

struct Flags {
  std::vector<std::string> shapes = {"null", "talk"};
  std::vector<std::string> clusters = {"in-process", "1x1", "2x2"};
  MeasureOptions options;
  std::string json;  // "-": standard output
  bool want_json = false;
};

absl::Status Write(const std::string& file, const std::string& text) {
  if (file.empty() || file == "-") {
    std::fputs(text.c_str(), stdout);
    return absl::OkStatus();
  }
  std::ofstream out(file);
  out << text;
  out.close();
  return out ? absl::OkStatus() : absl::InternalError(absl::StrCat("cannot write ", file));
}

absl::Status Run(const Flags& flags) {
  std::vector<StepShape> shapes;
  std::vector<ClusterShape> clusters;
  for (const std::string& name : flags.shapes) {
    ASSIGN_OR_RETURN(StepShape shape, FindStepShape(name));
    shapes.push_back(std::move(shape));
  }
  for (const std::string& name : flags.clusters) {
    ASSIGN_OR_RETURN(ClusterShape cluster, ParseClusterShape(name));
    clusters.push_back(cluster);
  }
  // The table goes where the JSON does not.
  FILE* table = flags.want_json && (flags.json.empty() || flags.json == "-") ? stderr : stdout;
  std::fputs(TableHead().c_str(), table);
  std::vector<Figures> all;
  for (const StepShape& shape : shapes) {
    for (const ClusterShape& cluster : clusters) {
      auto figures = MeasureStep(shape, cluster, flags.options);
      if (!figures.ok()) {
        return Annotate(figures.status(), absl::StrCat(shape.name, " on ", cluster.name()));
      }
      std::fputs(TableRow(*figures).c_str(), table);
      std::fflush(table);
      all.push_back(*std::move(figures));
    }
  }
  return flags.want_json ? Write(flags.json, ToJson(all)) : absl::OkStatus();
}

int Main(int argc, char** argv) {
  InitLogging("bench", LogLevel::kWarning);
  CLI::App app("Benchmarks of Coxswain", "coxswain-bench");
  app.require_subcommand(1);
  Flags flags;
  std::string known;
  for (const StepShape& s : StepShapes()) absl::StrAppend(&known, "\n", s.name, ": ", s.summary);
  CLI::App* step = app.add_subcommand("step", "Times whole training steps of the reference shapes");
  step->add_option("SHAPE", flags.shapes, "which, null and talk by default:" + known);
  step->add_option("--cluster", flags.clusters,
                   "in-process, in-process:PSxW, or PSxW for processes on loopback")
      ->allow_extra_args(false);
  step->add_option("--seconds", flags.options.seconds, "of timing, for each line")
      ->check(CLI::PositiveNumber);
  step->add_option("--pack", flags.options.pack, "steps of a closure")
      ->check(CLI::Range(1, 1'000'000));
  step->add_option("--in-flight", flags.options.in_flight, "closures that a worker is kept deep")
      ->check(CLI::Range(1, 1024));
  step->add_option("--threads", flags.options.threads,
                   "compute threads of the process or of each worker (0: by cores)")
      ->check(CLI::NonNegativeNumber);
  CLI::Option* json =
      step->add_option("--json", flags.json, "also as JSON into this file (none or -: to stdout)")
          ->expected(0, 1);
  RecoveryFlags recovery_flags;
  CLI::App* recovery = AddRecoveryCommand(&app, &recovery_flags);
  CLI::Option* recovery_json =
      recovery
          ->add_option("--json", recovery_flags.json,
                       "also as JSON into this file (none or -: to stdout)")
          ->expected(0, 1);
  CLI11_PARSE(app, argc, argv);
  flags.want_json = json->count() > 0;
  recovery_flags.want_json = recovery_json->count() > 0;
  const absl::Status s = recovery->parsed() ? RunRecovery(recovery_flags, Write) : Run(flags);
  if (!s.ok()) {
    std::fprintf(stderr, "coxswain-bench: %s\n", std::string(s.message()).c_str());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) { return coxswain::Main(argc, argv); }
