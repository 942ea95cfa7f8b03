// What a job used of its cluster: closures, traffic, and how often each shard was updated.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "coxswain/cluster.h"
#include "coxswain/strategy.h"
#include "runtime/base/ids.h"

namespace coxswain::runner {

struct PsTraffic {
  double frames = 0;  // both ways
  double bytes_in = 0, bytes_out = 0;
};

// So far, by PS. What does not answer, or began anew, counts as nothing.
std::vector<PsTraffic> ReadTraffic(const Cluster& cluster);
// Adds what came between two readings.
void AddTraffic(const std::vector<PsTraffic>& before, const std::vector<PsTraffic>& after,
                std::vector<PsTraffic>* sum);

// How late a shard's gradients were (ps_server/staleness.h), since it is where it is.
struct StalenessOf {
  std::vector<int64_t> counts;  // of 0, 1, 2 to 3, 4 to 7, ... updates
  int64_t sum = 0, most = 0;
  // Of tables: rows that gradients named, and those that had changed since they were read.
  int64_t rows = 0, rows_changed = 0;
};

// What a shard has; of a hash table rows come and go.
struct ShardRows {
  int64_t rows = 0, evicted = 0, waiting = 0;
  int ps = 0;  // where it is
  StalenessOf staleness = {};
};

// The updates of the trained variables, counted by the shards themselves.
struct UpdateCounts {
  int64_t scheduled = 0;  // training steps: what each shard should have
  // What the shards have: `scheduled` when all do, else the count that is most off.
  int64_t applied = 0;
  int64_t duplicates_dropped = 0;
  int64_t shards = 0;
  int64_t shards_off = 0;  // that have another count
  int64_t lost = 0;        // given up when a parameter server was lost, summed over shards
  std::map<ShardId, ShardRows> rows;
};

// Errors: Unavailable when a shard cannot be found on any PS for long.
absl::StatusOr<UpdateCounts> ReadUpdates(const Cluster& cluster, ParameterServerStrategy* strategy,
                                         int64_t steps);

}  // namespace coxswain::runner
