// `coxswain status`
#pragma once

#include <string>

#include "protos/control.pb.h"
#include "runtime/net/credentials.h"

namespace coxswain::cli {

struct StatusFlags {
  std::string cluster_file;
  double timeout = 3;  // seconds
  bool json = false;
  bool verbose = false;
  net::CredentialOptions credentials;
};
int ShowStatus(const StatusFlags& flags);

// What is printed behind a task of another version than this program's: a coordinator of this one
// does not use it.
std::string VersionText(const proto::TaskStatus& status);

// What is printed below a task about its shards: how late their gradients are, and hash tables
// whose rows come and go. At most a line of each, of all shards together; `verbose`: lines of each
// shard.
std::string ShardsText(const proto::TaskStatus& status, bool verbose);

}  // namespace coxswain::cli
