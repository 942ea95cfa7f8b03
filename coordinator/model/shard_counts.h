// Into how many shards a job cuts its tables.
#pragma once

#include <cstdint>

#include "coordinator/job/job_spec.h"
#include "coxswain/strategy.h"

namespace coxswain::model {

// Shards of at least this size may be more than there are parameter servers: a shard is changed by
// one thread of its PS, so that a large table keeps several of them busy only by several shards.
constexpr int64_t kLargeShardBytes = int64_t{16} << 20;

// What `parameter_servers.partitioner` says of tables without `shards`, on `num_ps` parameter
// servers with so many threads each. Both at least 1.
Partitioner MakePartitioner(const job::PartitionerSpec& spec, int num_ps, int threads);

}  // namespace coxswain::model
