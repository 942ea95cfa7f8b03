// `coxswain status`
#include <memory>

#include "CLI/CLI.hpp"
#include "coordinator/cli/commands/shared_flags.h"
#include "coordinator/cli/status_command.h"

namespace coxswain::cli {

void AddStatusCommand(CLI::App& app, Run* run) {
  const auto flags = std::make_shared<StatusFlags>();
  CLI::App* c =
      app.add_subcommand("status", "Shows a cluster's tasks, which job holds it and what runs");
  c->add_option("--cluster", flags->cluster_file, "the cluster file")
      ->required()
      ->type_name("FILE");
  CheckTimeout(c->add_option("--timeout", flags->timeout, "how long to wait for answers"))
      ->type_name("SECONDS")
      ->capture_default_str();
  CLI::Option* const json = c->add_flag("--json", flags->json, "all of it, as JSON");
  c->add_flag("--verbose", flags->verbose, "lines for each variable, where there is one for all")
      ->excludes(json);
  AddCredentials(c, &flags->credentials);
  c->callback([flags, run] { *run = [flags] { return ShowStatus(*flags); }; });
}

}  // namespace coxswain::cli
