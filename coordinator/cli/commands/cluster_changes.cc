// `coxswain add-worker`, `coxswain remove-worker`
#include <memory>

#include "CLI/CLI.hpp"
#include "coordinator/cli/cluster_command.h"
#include "coordinator/cli/commands/shared_flags.h"

namespace coxswain::cli {

void AddClusterChanges(CLI::App& app, Run* run) {
  const auto flags = std::make_shared<ClusterFlags>();
  const auto add = [&](const char* name, const char* help, int (*command)(const ClusterFlags&)) {
    CLI::App* c = app.add_subcommand(name, help);
    c->add_option("HOST:PORT", flags->addresses, "the workers' addresses")
        ->required()
        ->type_name("");
    c->add_option("--cluster", flags->cluster_file, "the cluster file")
        ->required()
        ->type_name("FILE");
    CheckTimeout(
        c->add_option("--timeout", flags->timeout, "how long to wait for the daemons' answers"))
        ->type_name("SECONDS")
        ->capture_default_str();
    AddCredentials(c, &flags->credentials);
    c->callback([flags, run, command] { *run = [flags, command] { return command(*flags); }; });
  };
  add("add-worker", "Adds workers to a cluster file, and to the job that runs with it",
      AddWorkersCommand);
  add("remove-worker", "Removes workers from the end of a cluster file's list",
      RemoveWorkersCommand);
}

}  // namespace coxswain::cli
