// Flags that several commands have. What they fill in must outlive the command.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coordinator/cli/commands.h"
#include "coordinator/cli/commands/command_list.h"

namespace coxswain::cli {

void AddJob(CLI::App* command, std::string* job);
void AddModelDir(CLI::App* command, std::string* directory);
void AddOverrides(CLI::App* command, std::vector<std::string>* overrides);
// --cluster, --local and the secret, of a command that works in this process without them.
void AddElsewhere(CLI::App* command, Where* where, const std::string& what);
void AddSecret(CLI::App* command, net::SecretOptions* secret);
// What `train` and `chaos` share beside the job.
void AddTrainFlags(CLI::App* c, const std::shared_ptr<TrainFlags>& flags, Run* run);

}  // namespace coxswain::cli
