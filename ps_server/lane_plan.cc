// Cutter distributes the nodes of one segment to the lanes of its shards; CutByLanes does so for
// all segments of a plan.
#include "ps_server/lane_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "runtime/base/status.h"
#include "runtime/graph/op.h"

namespace coxswain::ps {
namespace {

constexpr int kAnyLane = -1;

std::optional<ShardId> ShardOf(const graph::Graph& graph, const graph::Node& node) {
  if (!graph.registry()->Find(node.op)->on_parameter_server) return std::nullopt;
  const auto shard = graph::GetAttr<int64_t>(node.attrs, "shard");
  if (!shard.ok()) return std::nullopt;  // its kernel refuses it
  return static_cast<ShardId>(*shard);
}

class Cutter {
 public:
  Cutter(std::shared_ptr<const function::CompiledFunction> whole, LaneOfShard lane_of)
      : whole_(std::move(whole)), in_(whole_->function()), parent_(in_.graph.size()) {
    std::iota(parent_.begin(), parent_.end(), 0);
    for (size_t i = 0; i < in_.arguments.size(); ++i) {
      argument_[in_.arguments[i].node] = static_cast<int>(i);
    }
    FindShared();
    Connect();
    FindLanes(lane_of);
  }

  absl::StatusOr<LaneSegment> Run() {
    LaneSegment segment;
    segment.whole = whole_;
    segment.lanes.assign(lanes_.begin(), lanes_.end());
    if (spans_) return segment;
    if (lanes_.size() == 1) {
      segment.pieces.push_back({segment.lanes[0], whole_, {}, {}});
      return segment;
    }
    for (const int lane : segment.lanes) {
      ASSIGN_OR_RETURN(LanePiece piece, Build(lane));
      segment.pieces.push_back(std::move(piece));
    }
    MarkLast(&segment);
    return segment;
  }

 private:
  // Nodes that several pieces may have, each its own copy: arguments, constants and nodes that
  // depend on these alone, such as a cast of a gradient for two shards.
  void FindShared() {
    for (const graph::Node& n : in_.graph.nodes()) {
      const graph::OpSchema& schema = *in_.graph.registry()->Find(n.op);
      shared_.push_back(!schema.stateful && !schema.on_parameter_server &&
                        n.control_inputs.empty() &&
                        std::all_of(n.inputs.begin(), n.inputs.end(),
                                    [this](const Output& input) { return IsShared(input.node); }));
    }
  }
  bool IsShared(int node) const { return shared_[static_cast<size_t>(node)]; }

  int Root(int id) {
    while (parent_[id] != id) id = parent_[id] = parent_[parent_[id]];
    return id;
  }

  void Connect() {
    for (const graph::Node& n : in_.graph.nodes()) {
      if (IsShared(n.id)) continue;
      const auto join = [&](int other) {
        if (!IsShared(other)) parent_[Root(n.id)] = Root(other);
      };
      for (const Output& input : n.inputs) join(input.node);
      for (const int control : n.control_inputs) join(control);
    }
  }

  void FindLanes(LaneOfShard lane_of) {
    for (const graph::Node& n : in_.graph.nodes()) {
      const auto shard = ShardOf(in_.graph, n);
      const int lane = shard.has_value() ? lane_of(*shard) : kAnyLane;
      if (lane == kAnyLane) continue;
      lanes_.insert(lane);
      const auto [it, is_new] = lane_of_part_.try_emplace(Root(n.id), lane);
      if (!is_new && it->second != lane) spans_ = true;
    }
    if (lanes_.empty()) lanes_.insert(0);
  }

  // The piece of a node; nodes that need no shard, and shared nodes, go to the first one.
  int LaneOf(int node) {
    const auto found = lane_of_part_.find(Root(node));
    return found == lane_of_part_.end() ? *lanes_.begin() : found->second;
  }

  absl::StatusOr<int> Copy(const graph::Node& n, graph::Function* out, LanePiece* piece) {
    if (const auto found = copied_.find(n.id); found != copied_.end()) return found->second;
    graph::Node copy = n;
    for (Output& input : copy.inputs) {
      ASSIGN_OR_RETURN(input.node, Copy(in_.graph.node(input.node), out, piece));
    }
    std::vector<int> controls;
    for (const int control : copy.control_inputs) {
      if (!IsShared(control)) controls.push_back(copied_.at(control));
    }
    copy.control_inputs = std::move(controls);
    if (n.op == "Arg") copy.attrs["index"] = static_cast<int64_t>(out->arguments.size());
    ASSIGN_OR_RETURN(const int id, out->graph.Add(std::move(copy)));
    if (n.op == "Arg") {
      const int index = argument_.at(n.id);
      const graph::Function::Argument& argument = in_.arguments[static_cast<size_t>(index)];
      out->arguments.push_back({argument.name, argument.type, id});
      piece->inputs.push_back({index, true});
    }
    return copied_[n.id] = id;
  }

  // The nodes of the lane's piece: its own, and the shared nodes that they need.
  std::vector<bool> WantedBy(int lane) {
    std::vector<bool> wanted(static_cast<size_t>(in_.graph.size()), false);
    const auto want = [&](int id) { wanted[static_cast<size_t>(id)] = true; };
    for (const graph::Node& n : in_.graph.nodes()) {
      if (!IsShared(n.id) && LaneOf(n.id) == lane) want(n.id);
    }
    for (const graph::Function::Result& result : in_.results) {
      if (LaneOf(result.output.node) == lane) want(result.output.node);
    }
    for (const int target : in_.targets) {
      if (LaneOf(target) == lane) want(target);
    }
    for (int id = in_.graph.size() - 1; id >= 0; --id) {
      if (!wanted[static_cast<size_t>(id)]) continue;
      for (const Output& input : in_.graph.node(id).inputs) want(input.node);
    }
    return wanted;
  }

  absl::StatusOr<LanePiece> Build(int lane) {
    LanePiece piece;
    piece.lane = lane;
    graph::Function out(in_.name, in_.graph.registry());
    copied_.clear();
    // In the graph's order, so that copying a node never goes deeper than to its inputs.
    const std::vector<bool> wanted = WantedBy(lane);
    for (const graph::Node& n : in_.graph.nodes()) {
      if (wanted[static_cast<size_t>(n.id)]) RETURN_IF_ERROR(Copy(n, &out, &piece).status());
    }
    for (size_t i = 0; i < in_.results.size(); ++i) {
      const graph::Function::Result& result = in_.results[i];
      if (LaneOf(result.output.node) != lane) continue;
      ASSIGN_OR_RETURN(const int id, Copy(in_.graph.node(result.output.node), &out, &piece));
      out.results.push_back({result.name, {id, result.output.index}});
      piece.results.push_back(static_cast<int>(i));
    }
    for (const int target : in_.targets) {
      if (LaneOf(target) != lane) continue;
      ASSIGN_OR_RETURN(const int id, Copy(in_.graph.node(target), &out, &piece));
      out.targets.push_back(id);
    }
    ASSIGN_OR_RETURN(piece.function, function::CompiledFunction::Compile(std::move(out)));
    return piece;
  }

  static void MarkLast(LaneSegment* segment) {
    std::set<int> seen;
    for (auto piece = segment->pieces.rbegin(); piece != segment->pieces.rend(); ++piece) {
      for (LanePiece::Input& input : piece->inputs) {
        input.last = seen.insert(input.argument).second;
      }
    }
  }

  const std::shared_ptr<const function::CompiledFunction> whole_;
  const graph::Function& in_;
  std::vector<int> parent_;  // union-find forest: nodes that are connected other than by shared
                             // nodes
  absl::flat_hash_map<int, int> lane_of_part_;
  std::set<int> lanes_;
  bool spans_ = false;
  absl::flat_hash_map<int, int> argument_;  // by node
  std::vector<bool> shared_;                // by node
  absl::flat_hash_map<int, int> copied_;    // node of the segment -> node of the piece
};

}  // namespace

absl::StatusOr<std::shared_ptr<const LanePlan>> CutByLanes(
    const std::vector<std::shared_ptr<const function::CompiledFunction>>& segments,
    LaneOfShard lane_of) {
  auto plan = std::make_shared<LanePlan>();
  std::map<ShardId, int> shards;
  std::set<ShardId> updated;
  for (const auto& whole : segments) {
    ASSIGN_OR_RETURN(LaneSegment segment, Cutter(whole, lane_of).Run());
    plan->segments.push_back(std::move(segment));
    for (const graph::Node& n : whole->function().graph.nodes()) {
      if (const auto shard = ShardOf(whole->function().graph, n)) {
        shards.emplace(*shard, lane_of(*shard));
        // Of the ops on shards, those without an output change them.
        if (n.outputs.empty()) updated.insert(*shard);
      }
    }
  }
  plan->shards.assign(shards.begin(), shards.end());
  plan->updated.assign(updated.begin(), updated.end());
  std::set<int> lanes;
  for (const auto& [shard, lane] : shards) {
    if (lane != kAnyLane) lanes.insert(lane);
  }
  plan->lanes.assign(lanes.begin(), lanes.end());
  return std::shared_ptr<const LanePlan>(std::move(plan));
}

bool IsCutFor(const LanePlan& plan, LaneOfShard lane_of) {
  return std::all_of(plan.shards.begin(), plan.shards.end(), [&](const auto& shard) {
    const int now = lane_of(shard.first);
    return now == kAnyLane || now == shard.second;
  });
}

}  // namespace coxswain::ps
