// Options of a cluster that nobody can mean.
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "coxswain/cluster.h"
#include "runtime/cluster/cluster_config.h"

namespace coxswain {
namespace {

TEST_CASE("a cluster's options that are negative, or zero where that is no choice, are refused",
          "[api]") {
  using Set = std::function<void(ClusterOptions*)>;
  const std::vector<std::pair<Set, std::string>> wrong = {
      {[](auto* o) { o->closures_in_flight = 0; },
       "closures_in_flight: wanted at least 1, found 0"},
      {[](auto* o) { o->lease = absl::ZeroDuration(); }, "lease: wanted a time above 0, found 0"},
      {[](auto* o) { o->connect_timeout = -absl::Seconds(1); },
       "connect_timeout: wanted a time above 0, found -1s"},
      {[](auto* o) { o->straggler_timeout = -absl::Seconds(1); },
       "straggler_timeout: wanted a time of at least 0, found -1s"},
      {[](auto* o) { o->threads = -1; }, "threads: wanted at least 0, found -1"},
      {[](auto* o) { o->local_restarts = -2; }, "local_restarts: wanted at least 0, found -2"},
      {[](auto* o) { o->recovery.ps_return_timeout = -absl::InfiniteDuration(); },
       "recovery.ps_return_timeout: wanted a time of at least 0, found -inf"},
      {[](auto* o) { o->recovery.cluster_timeout = absl::ZeroDuration(); },
       "recovery.cluster_timeout: wanted a time above 0, found 0"},
      {[](auto* o) { o->recovery.quarantine_after = 1; },
       "recovery.quarantine_after: wanted 0 or at least 2, found 1"},
      {[](auto* o) { o->recovery.closure_timeout = -absl::Milliseconds(1); },
       "recovery.closure_timeout: wanted a time of at least 0, found -1ms"},
      {[](auto* o) { o->recovery.most_timeouts = 0; },
       "recovery.most_timeouts: wanted at least 1, found 0"},
      {[](auto* o) { o->recovery.max_window = 0; },
       "recovery.max_window: wanted at least 1, found 0"},
      {[](auto* o) { o->recovery.max_log_closures = -1; },
       "recovery.max_log_closures: wanted at least 0, found -1"},
      {[](auto* o) { o->recovery.max_log_bytes = -1; },
       "recovery.max_log_bytes: wanted at least 0, found -1"},
  };
  cluster::ClusterConfig nowhere;
  nowhere.ps = nowhere.workers = {"127.0.0.1:1"};
  for (const auto& [set, message] : wrong) {
    ClusterOptions options;
    set(&options);
    for (const auto& cluster : {Cluster::InProcess(1, 1, options), Cluster::Local(1, 1, options),
                                Cluster::Connect(nowhere, options)}) {
      CHECK(cluster.status().code() == absl::StatusCode::kInvalidArgument);
      CHECK(cluster.status().message() == "ClusterOptions::" + message);
    }
  }
}

TEST_CASE("zeros that are choices are taken among a cluster's options", "[api]") {
  ClusterOptions options;
  options.straggler_timeout = options.recovery.ps_return_timeout = absl::ZeroDuration();
  options.threads = options.local_restarts = options.recovery.quarantine_after = 0;
  options.recovery.max_log_closures = options.recovery.max_log_bytes = 0;
  CHECK(Cluster::InProcess(1, 1, options).ok());
}

}  // namespace
}  // namespace coxswain
