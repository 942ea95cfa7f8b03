// The command line that coxswain-worker and coxswain-ps share.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/cluster/daemon.h"

namespace coxswain::cluster {

using DaemonFactory = std::function<std::unique_ptr<Daemon>(
    env::Env* env, net::Transport* transport, DaemonOptions options)>;

// Parses the flags, starts the daemon, prints "listening on HOST:PORT", with --metrics also
// "metrics on http://HOST:PORT/metrics", and serves until SIGTERM or SIGINT. Then it ends in order:
// the coordinator is told (see Daemon::Terminate) and what runs finishes, for at most 2 s. A second
// signal ends the process at once with 128 + its number.
// Returns the exit code: 0; 2 for wrong usage or configuration; 4 when it cannot listen.
int DaemonMain(int argc, char** argv, const std::string& job, const DaemonFactory& factory);

}  // namespace coxswain::cluster
