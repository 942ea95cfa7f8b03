// Flags that several commands have. What they fill in must outlive the command.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coordinator/cli/commands.h"
#include "coordinator/cli/commands/command_list.h"

namespace CLI {
class Option;
}

namespace coxswain::cli {

// Refuses what is no number from `least` to `most`. CLI11's own checks let nan through, which is
// outside of no range, and with it a wait that has no end.
CLI::Option* CheckNumber(CLI::Option* option, double least, double most);
constexpr double kMostCheckpoint = 1e15;  // the largest number of one that a flag takes
// Of a time that is waited for, more than nothing; and of one that may be nothing.
CLI::Option* CheckTimeout(CLI::Option* option);
CLI::Option* CheckSeconds(CLI::Option* option);

void AddJob(CLI::App* command, std::string* job);
void AddOverrides(CLI::App* command, std::vector<std::string>* overrides);
// --cluster, --local and credentials, of a command that works in this process without them.
void AddElsewhere(CLI::App* command, Where* where, const std::string& what);
// The secret, and TLS.
void AddCredentials(CLI::App* command, net::CredentialOptions* credentials);
// With this option there is no cluster that these would be for.
void ExcludeCredentials(CLI::App* command, CLI::Option* option);
// What `train` and `chaos` share beside the job.
void AddTrainFlags(CLI::App* c, const std::shared_ptr<TrainFlags>& flags, Run* run);

}  // namespace coxswain::cli
