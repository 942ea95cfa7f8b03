#include "coordinator/runner/usage.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/api/task_statuses.h"
#include "coordinator/api/variable_info.h"
#include "protos/control.pb.h"
#include "runtime/base/status.h"

namespace coxswain::runner {
namespace {

// A PS that was lost at the very end is being recovered: its steps run again meanwhile.
constexpr absl::Duration kSettle = absl::Seconds(30);
constexpr absl::Duration kAskAgain = absl::Milliseconds(50);

struct ShardCount {
  int64_t applied = 0, duplicates = 0;
  ShardRows rows;
};

std::map<ShardId, ShardCount> ReadCounts(const Cluster& cluster) {
  std::map<ShardId, ShardCount> counts;
  for (const proto::TaskStatus& task : TaskStatuses(cluster, /*staleness=*/true)) {
    for (const proto::ShardStatus& shard : task.shards()) {
      counts[shard.shard()] = {static_cast<int64_t>(shard.updates_applied()),
                               static_cast<int64_t>(shard.duplicates_dropped()),
                               {shard.rows(),
                                static_cast<int64_t>(shard.rows_evicted()),
                                static_cast<int64_t>(shard.ids_waiting()),
                                task.task(),
                                {{shard.staleness().begin(), shard.staleness().end()},
                                 static_cast<int64_t>(shard.staleness_sum()),
                                 static_cast<int64_t>(shard.staleness_most()),
                                 static_cast<int64_t>(shard.gradient_rows()),
                                 static_cast<int64_t>(shard.gradient_rows_changed())}}};
    }
  }
  return counts;
}

}  // namespace

std::vector<PsTraffic> ReadTraffic(const Cluster& cluster) {
  std::vector<PsTraffic> traffic(static_cast<size_t>(cluster.num_ps()));
  for (const proto::TaskStatus& status : TaskStatuses(cluster)) {
    if (status.job() != "ps" || status.task() < 0 || status.task() >= cluster.num_ps()) continue;
    traffic[static_cast<size_t>(status.task())] = {static_cast<double>(status.segments_run()) * 2,
                                                   static_cast<double>(status.bytes_received()),
                                                   static_cast<double>(status.bytes_sent())};
  }
  return traffic;
}

void AddTraffic(const std::vector<PsTraffic>& before, const std::vector<PsTraffic>& after,
                std::vector<PsTraffic>* sum) {
  sum->resize(after.size());
  for (size_t p = 0; p < after.size(); ++p) {
    // A PS that began anew counts from nothing.
    const PsTraffic from = after[p].frames < before[p].frames ? PsTraffic{} : before[p];
    (*sum)[p].frames += after[p].frames - from.frames;
    (*sum)[p].bytes_in += std::max(0.0, after[p].bytes_in - from.bytes_in);
    (*sum)[p].bytes_out += std::max(0.0, after[p].bytes_out - from.bytes_out);
  }
}

absl::StatusOr<UpdateCounts> ReadUpdates(const Cluster& cluster, ParameterServerStrategy* strategy,
                                         int64_t steps) {
  RETURN_IF_ERROR(cluster.WaitUntilSettled());
  const absl::Time deadline = absl::Now() + kSettle;
  while (true) {
    const ClusterStats stats = cluster.Stats();
    const std::map<ShardId, ShardCount> counts = ReadCounts(cluster);
    UpdateCounts updates;
    updates.scheduled = updates.applied = steps;
    updates.lost = stats.failures.updates_lost;
    ShardId missing = 0;
    for (const auto& info : strategy->variables()) {
      if (info->optimizer.kind().empty()) continue;
      for (const proto::ShardSpec& shard : info->shards) {
        const auto it = counts.find(shard.id());
        if (it == counts.end()) {
          missing = shard.id();
          continue;
        }
        ++updates.shards;
        updates.rows[shard.id()] = it->second.rows;
        updates.duplicates_dropped += it->second.duplicates;
        if (it->second.applied == steps) continue;
        ++updates.shards_off;
        if (std::abs(it->second.applied - steps) > std::abs(updates.applied - steps)) {
          updates.applied = it->second.applied;
        }
      }
    }
    const bool settled =
        missing == 0 && stats.waiting_for.empty() &&
        (updates.shards_off == 0 || stats.failures.ps_lost == 0 || updates.lost > 0);
    if (settled || absl::Now() > deadline) {
      if (missing == 0) return updates;
      return absl::UnavailableError(
          absl::StrCat("shard ", missing, " is on no parameter server that answers"));
    }
    absl::SleepFor(kAskAgain);
    RETURN_IF_ERROR(cluster.WaitUntilSettled());
  }
}

}  // namespace coxswain::runner
