#include "tests/bench/coordinator/coordinator_command.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "coordinator/local/child.h"
#include "coordinator/local/local_tasks.h"
#include "runtime/base/status.h"

namespace coxswain {

absl::StatusOr<CoordinatorFigures> MeasureInChild(const CoordinatorOptionsOfBench& options) {
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) return absl::InternalError("cannot make a pipe");
  ASSIGN_OR_RETURN(const std::string directory, local::ProgramDirectory());
  local::ChildOptions child_options;
  child_options.command = {absl::StrCat(directory, "/coxswain-bench"),
                           "coordinator",
                           "--here",
                           "--workers",
                           absl::StrCat(options.workers),
                           "--variables",
                           absl::StrCat(options.variables),
                           "--seconds",
                           absl::StrCat(options.seconds),
                           "--in-flight",
                           absl::StrCat(options.in_flight),
                           "--json"};
  child_options.out = out[1];
  child_options.death_signal = SIGKILL;
  auto child = local::Child::Start(child_options);
  close(out[1]);
  std::string text;
  char block[4096];
  ssize_t n = 0;
  while (child.ok() && (n = read(out[0], block, sizeof(block))) > 0) {
    text.append(block, static_cast<size_t>(n));
  }
  close(out[0]);
  RETURN_IF_ERROR(child.status());
  child->WaitFor(absl::Seconds(10));
  if (child->Poll() != 0) {
    return absl::InternalError(absl::StrCat(options.workers, " workers: the run failed"));
  }
  return ParseCoordinatorFigures(text);
}

CoordinatorCommands AddCoordinatorCommands(CLI::App* app, CoordinatorFlags* flags) {
  CoordinatorCommands commands;
  CLI::App* c = app->add_subcommand(
      "coordinator", "Times a coordinator whose workers answer at once, many of them");
  c->add_option("--workers", flags->workers, "how many, separated by commas")
      ->delimiter(',')
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  c->add_option("--variables", flags->options.variables, "of the plan that all get")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  c->add_option("--seconds", flags->options.seconds, "of closures, and of idling, for each line")
      ->check(CLI::PositiveNumber);
  c->add_option("--in-flight", flags->options.in_flight, "closures that a worker is kept deep")
      ->check(CLI::Range(1, 1024));
  c->add_flag("--here", flags->here, "in this process, and only the first number")->group("");
  commands.json =
      c->add_option("--json", flags->json, "also as JSON into this file (none or -: to stdout)")
          ->expected(0, 1);
  commands.bench = c;
  commands.fake_workers = app->add_subcommand("fake-workers", "Workers that only talk")->group("");
  commands.fake_workers->add_option("FIRST", flags->first)->required();
  commands.fake_workers->add_option("COUNT", flags->count)->required();
  return commands;
}

absl::Status RunCoordinatorBench(const CoordinatorFlags& flags,
                                 absl::Status (*write)(const std::string& file,
                                                       const std::string& text)) {
  std::vector<CoordinatorFigures> all;
  for (const int workers : flags.workers) {
    CoordinatorOptionsOfBench options = flags.options;
    options.workers = workers;
    ASSIGN_OR_RETURN(const CoordinatorFigures figures,
                     flags.here ? MeasureCoordinator(options) : MeasureInChild(options));
    all.push_back(figures);
    if (flags.here) break;
  }
  FILE* table = flags.want_json && (flags.json.empty() || flags.json == "-") ? stderr : stdout;
  if (!flags.here) std::fputs(CoordinatorTable(all).c_str(), table);
  return flags.want_json ? write(flags.json, CoordinatorJson(all)) : absl::OkStatus();
}

}  // namespace coxswain
