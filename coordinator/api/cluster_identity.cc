#include "coordinator/api/cluster_identity.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/env/this_process.h"

namespace coxswain {

std::string ClusterIdentity(const cluster::ClusterConfig& config) {
  const bool here = std::any_of(config.ps.begin(), config.ps.end(), [](const std::string& a) {
    return absl::StartsWith(a, "127.") || absl::StartsWith(a, "localhost") ||
           absl::StartsWith(a, "[::1]") || absl::StartsWith(a, "unix:");
  });
  const std::string addresses = absl::StrJoin(config.ps, ",");
  return here ? absl::StrCat(env::HostName(), ": ", addresses) : addresses;
}

}  // namespace coxswain
