// `coxswain add-worker` and `coxswain remove-worker`: change the workers of a cluster file, and
// tell the job that runs on the cluster. As all commands, each returns the exit code and has
// printed what there is to say.
#pragma once

#include <string>
#include <vector>

#include "runtime/net/credentials.h"

namespace coxswain::cli {

struct ClusterFlags {
  std::vector<std::string> addresses;  // of workers
  std::string cluster_file;
  double timeout = 3;  // seconds, for the daemons' answers
  net::CredentialOptions credentials;
};

// Both do all or nothing to the file, and say so when there is nothing to do; then, too, the job is
// told. Exit code 0 once the file is as wanted, also when nobody could be told; 2 when the file is
// wrong or cannot be what is wanted, or a daemon has another secret.
//
// A worker's number is its place in the list: new ones come to its end,
int AddWorkersCommand(const ClusterFlags& flags);
// and only those at its end can go.
int RemoveWorkersCommand(const ClusterFlags& flags);

}  // namespace coxswain::cli
