// How much of a shard has to be written, given an older checkpoint that has it.
#pragma once

#include <cstdint>

#include "protos/control.pb.h"
#include "ps_server/shard_snapshot.h"

namespace coxswain::ps {

struct DeltaPlan {
  enum class Kind : uint8_t {
    kWhole,    // all of it
    kNothing,  // it is as it was
    kTouched,  // the rows that were touched since, unless these are more than `most_rows`
  };
  Kind kind = Kind::kWhole;
  int64_t most_rows = 0;
};

// `base`: the shard in an older state from which, update by update, the present one came about. One
// that cannot be it, or was of another specification, is not used. `limits`: max_deltas and
// max_delta_share are.
DeltaPlan PlanDelta(const proto::SavedShard& base, const proto::ShardSpec& spec,
                    const ShardSnapshot& snapshot, const proto::SaveShards& limits);

}  // namespace coxswain::ps
