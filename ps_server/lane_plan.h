// The segments of a plan, cut into pieces by the lanes to which their shards belong.
//
// A segment falls apart into parts that share nothing but what the frame brings, constants and what
// follows from these alone, which each may compute for itself: most have one shard each. A piece is
// all parts of one lane; it takes some of the frame's tensors and gives some of the reply's. A part
// with shards of several lanes is rare; such a segment stays whole and runs alone in all lanes that
// it needs.
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

// Which lane a shard belongs to; -1: there is no such shard.
using LaneOfShard = absl::FunctionRef<int(ShardId)>;

struct LanePiece {
  struct Input {
    int argument = 0;  // of the segment
    bool last = true;  // no later piece takes it too
  };
  int lane = 0;
  std::shared_ptr<const function::CompiledFunction> function;
  std::vector<Input> inputs;
  std::vector<int> results;  // which ones of the segment's it gives
  std::shared_ptr<Pace> pace = std::make_shared<Pace>();
};

struct LaneSegment {
  std::shared_ptr<const function::CompiledFunction> whole;
  // By lane, each once. One that is not cut has one, with `whole`, and neither inputs nor results:
  // they are the segment's. None when it must run alone in `lanes`.
  std::vector<LanePiece> pieces;
  std::vector<int> lanes;                                 // ascending
  std::shared_ptr<Pace> pace = std::make_shared<Pace>();  // when it runs alone in them
};

struct LanePlan {
  std::vector<LaneSegment> segments;
  std::vector<std::pair<ShardId, int>> shards;  // its shards and the lanes for which it was cut
  std::vector<int> lanes;                       // of these, ascending
  std::vector<ShardId> updated;                 // of the shards, those that it changes; ascending
  // How long a synchronous step of it takes to be applied in one lane.
  std::shared_ptr<Pace> apply_pace = std::make_shared<Pace>();
};

// A shard that is not there may be anywhere: running the piece says so.
// Errors: as CompiledFunction::Compile.
absl::StatusOr<std::shared_ptr<const LanePlan>> CutByLanes(
    const std::vector<std::shared_ptr<const function::CompiledFunction>>& segments,
    LaneOfShard lane_of);
// Whether a shard of the plan is in another lane now.
bool IsCutFor(const LanePlan& plan, LaneOfShard lane_of);

}  // namespace coxswain::ps
