// `coxswain chaos`
#include <memory>

#include "CLI/CLI.hpp"
#include "coordinator/cli/commands/shared_flags.h"

namespace coxswain::cli {

void AddChaosCommand(CLI::App& app, Run* run) {
  const auto flags = std::make_shared<TrainFlags>();
  CLI::App* c = app.add_subcommand(
      "chaos",
      "Trains a job while the daemons of a cluster on this machine are killed and stopped");
  AddJob(c, &flags->job);
  c->add_option("--cluster", flags->where.cluster_file, "the cluster file")
      ->required()
      ->type_name("FILE");
  c->add_option("--chaos", flags->chaos, "the schedule of faults, see docs/chaos.md")
      ->required()
      ->type_name("CHAOS.yaml");
  AddTrainFlags(c, flags, run);
}

}  // namespace coxswain::cli
