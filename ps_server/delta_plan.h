// Decides how much of a shard must be written, given an older checkpoint that has it.
#pragma once

#include <cstdint>

#include "protos/control.pb.h"
#include "ps_server/shard_snapshot.h"

namespace coxswain::ps {

struct DeltaPlan {
  enum class Kind : uint8_t {
    kWhole,    // the whole shard
    kNothing,  // nothing, because it has not changed
    kTouched,  // the rows that were touched since, unless they are more than `most_rows`
  };
  Kind kind = Kind::kWhole;
  int64_t most_rows = 0;
};

// `base`: the shard in an older state from which it reached its current state by updates alone. A
// base that cannot be one, or has another specification, is ignored. Of `limits`, max_deltas and
// max_delta_share are used.
DeltaPlan PlanDelta(const proto::SavedShard& base, const proto::ShardSpec& spec,
                    const ShardSnapshot& snapshot, const proto::SaveShards& limits);

}  // namespace coxswain::ps
