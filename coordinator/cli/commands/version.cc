// `coxswain version`
#include "runtime/base/version.h"
#include "CLI/CLI.hpp"
#include "coordinator/cli/commands/command_list.h"

namespace coxswain::cli {

void AddVersionCommand(CLI::App& app, Run* run) {
  app.add_subcommand("version", "Prints the version")->callback([run] {
    *run = [] {
      std::printf("coxswain %s\n", kVersion);
      return 0;
    };
  });
}

}  // namespace coxswain::cli
