// `coxswain make-secret`
#include <memory>

#include "CLI/CLI.hpp"
#include "coordinator/cli/cluster_command.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/commands/command_list.h"

namespace coxswain::cli {

void AddMakeSecretCommand(CLI::App& app, Run* run) {
  const auto path = std::make_shared<std::string>();
  CLI::App* c = app.add_subcommand(
      "make-secret", "Creates a file with the secret that a cluster's daemons and commands share");
  c->add_option("FILE", *path, "the file to create; must not exist yet")
      ->required()
      ->type_name("FILE");
  c->callback([path, run] { *run = [path] { return MakeSecret(*path); }; });
}

}  // namespace coxswain::cli
