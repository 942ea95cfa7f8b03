// `coxswain checkpoint`
#include <memory>

#include "CLI/CLI.hpp"
#include "coordinator/cli/checkpoint_command.h"
#include "coordinator/cli/commands/command_list.h"

namespace coxswain::cli {

void AddCheckpointCommand(CLI::App& app, Run* run) {
  const auto flags = std::make_shared<CheckpointFlags>();
  CLI::App* checkpoint = app.add_subcommand("checkpoint", "Lists, verifies and shows checkpoints");
  checkpoint->require_subcommand(1);
  const auto add = [&](const char* name, const char* help, int (*command)(const CheckpointFlags&)) {
    CLI::App* c = checkpoint->add_subcommand(name, help);
    c->add_option("DIR", flags->directory, "a directory of checkpoints, or one checkpoint")
        ->required()
        ->type_name("DIR");
    c->callback([flags, run, command] { *run = [flags, command] { return command(*flags); }; });
    return c;
  };
  add("list", "Lists the checkpoints, newest first", ListCheckpointsCommand)
      ->add_flag("--json", flags->json, "as JSON");
  add("verify",
      "Reads and verifies every byte; exit code 3 if the newest checkpoint is damaged or there is "
      "none",
      VerifyCheckpointsCommand)
      ->add_flag("--json", flags->json, "as JSON");
  add("inspect", "Shows the contents of the newest checkpoint", InspectCheckpointCommand);
}

}  // namespace coxswain::cli
