// The segments of a plan, cut into pieces by the lanes of their shards.
//
// A segment consists of independent components: they share only the frame's tensors, constants, and
// nodes that depend on these alone, which each component may compute for itself. Most components
// have one shard. A piece is all components of one lane; it takes some of the frame's tensors and
// gives some of the reply's. A component with shards of several lanes is rare; its segment is not
// cut and runs alone in all lanes that it needs.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "runtime/base/ids.h"
#include "runtime/base/pace.h"
#include "runtime/function/executor.h"

namespace coxswain::ps {

// Returns the lane of a shard; -1: the shard does not exist.
using LaneOfShard = absl::FunctionRef<int(ShardId)>;

struct LanePiece {
  struct Input {
    int argument = 0;  // of the segment
    bool last = true;  // no later piece uses it
  };
  int lane = 0;
  std::shared_ptr<const function::CompiledFunction> function;
  std::vector<Input> inputs;
  std::vector<int> results;  // the results of the segment that it gives
  std::shared_ptr<Pace> pace = std::make_shared<Pace>();
};

struct LaneSegment {
  std::shared_ptr<const function::CompiledFunction> whole;
  // By lane, each once. A segment that is not cut has one piece, with `whole` and without inputs
  // and results: these are the segment's. Empty if the segment must run alone in `lanes`.
  std::vector<LanePiece> pieces;
  std::vector<int> lanes;                                 // ascending
  std::shared_ptr<Pace> pace = std::make_shared<Pace>();  // for a segment that runs alone in its
                                                          // lanes
};

struct LanePlan {
  std::vector<LaneSegment> segments;
  std::vector<std::pair<ShardId, int>> shards;  // its shards and the lanes for which it was cut
  std::vector<int> lanes;                       // of these, ascending
  std::vector<ShardId> updated;                 // of the shards, those that it changes; ascending
  // How long a synchronous step of it takes to be applied in one lane.
  std::shared_ptr<Pace> apply_pace = std::make_shared<Pace>();
};

// A shard that does not exist may be put into any lane: running the piece reports it. Errors: as
// CompiledFunction::Compile.
absl::StatusOr<std::shared_ptr<const LanePlan>> CutByLanes(
    const std::vector<std::shared_ptr<const function::CompiledFunction>>& segments,
    LaneOfShard lane_of);
// Whether a shard of the plan is in another lane now.
bool IsCutFor(const LanePlan& plan, LaneOfShard lane_of);

}  // namespace coxswain::ps
