// The op that calls a PS, and Partitioner, which gives each node its place and stage and makes the
// components.
#include "runtime/function/partition.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/function/number_updates.h"
#include "runtime/graph/op.h"
#include "runtime/tensor/limits.h"

namespace coxswain::function {
namespace {

constexpr int64_t kMaxPsCallNumber = int64_t{1} << 20;
constexpr char kGpuInputs[] = "gpu_inputs", kGpuOutputs[] = "gpu_outputs";

// Types as a flat list: dtype, rank, dimensions, dtype, ...
std::vector<int64_t> EncodeTypes(const std::vector<TensorType>& types) {
  std::vector<int64_t> flat;
  for (const TensorType& t : types) {
    flat.push_back(static_cast<int64_t>(t.dtype));
    flat.push_back(t.shape.rank());
    flat.insert(flat.end(), t.shape.dims().begin(), t.shape.dims().end());
  }
  return flat;
}

absl::Status InferPsCall(graph::InferenceContext* context) {
  ASSIGN_OR_RETURN(auto flat, graph::GetAttr<std::vector<int64_t>>(context->attrs(), "types"));
  for (const char* name : {"ps", "segment"}) {
    ASSIGN_OR_RETURN(const int64_t number, graph::GetAttr<int64_t>(context->attrs(), name));
    if (number < 0 || number > kMaxPsCallNumber) {
      return context->Error(absl::StrCat("attribute '", name, "': wanted 0 to ", kMaxPsCallNumber,
                                         ", found ", number));
    }
  }
  for (size_t i = 0; i < flat.size();) {
    if (i + 2 > flat.size() || flat[i] < 1 || flat[i] > static_cast<int64_t>(DType::kBF16) ||
        flat[i + 1] < 0 || flat[i + 1] > kMaxRank || i + 2 + flat[i + 1] > flat.size()) {
      return context->Error("attribute 'types' is torn");
    }
    Shape shape(absl::MakeConstSpan(flat).subspan(i + 2, flat[i + 1]));
    context->AddOutput(static_cast<DType>(flat[i]), std::move(shape));
    i += 2 + static_cast<size_t>(flat[i + 1]);
  }
  return absl::OkStatus();
}

bool IsReplicable(const graph::Node& node) { return node.op == "Const"; }

// Builds the components. `at` is the place of a node, `stage` the number of its segment (PS) or the
// number of round trips that must be over before it can run (worker).
class Partitioner {
 public:
  Partitioner(const graph::Function& function, std::vector<int> place, int num_ps)
      : in_(function),
        place_(std::move(place)),
        num_ps_(num_ps),
        stage_(function.graph.size(), 0),
        partition_(graph::Function(function.name, function.graph.registry())) {
    partition_.worker.device = function.device;
  }

  absl::StatusOr<Partition> Run() {
    AssignStages();
    ReadWhereTaken();
    CollectCrossings();
    partition_.segments.resize(num_ps_);
    for (int p = 0; p < num_ps_; ++p) {
      for (int s = 0; s <= last_segment_[p]; ++s) {
        RETURN_IF_ERROR(BuildSegment(p, s));
      }
    }
    RETURN_IF_ERROR(BuildWorker());
    return std::move(partition_);
  }

 private:
  // (ps, segment)
  using Site = std::pair<int, int>;

  const graph::Node& node(int id) const { return in_.graph.node(id); }

  void AssignStages() {
    last_segment_.assign(num_ps_, -1);
    for (const graph::Node& n : in_.graph.nodes()) {
      if (IsReplicable(n)) continue;
      int stage = 0;
      const auto after = [&](int id) {
        if (IsReplicable(node(id))) return;
        const bool leaves_ps = place_[id] != kOnWorker && place_[id] != place_[n.id];
        stage = std::max(stage, stage_[id] + (leaves_ps ? 1 : 0));
      };
      for (const Output& in : n.inputs) after(in.node);
      for (int c : n.control_inputs) {
        after(c);
        // An update is there for reads of the next segment.
        const bool same = place_[c] == place_[n.id] && place_[c] != kOnWorker;
        if (same && IsUpdate(c) && !IsUpdate(n.id)) stage = std::max(stage, stage_[c] + 1);
      }
      stage_[n.id] = stage;
      if (place_[n.id] != kOnWorker) {
        last_segment_[place_[n.id]] = std::max(last_segment_[place_[n.id]], stage);
      }
    }
  }

  // What a PS reads for its own later segment is read there, and does not travel to the worker and
  // back. Only of shards that the function does not update: what is read of these is their value
  // before.
  void ReadWhereTaken() {
    const int nodes = static_cast<int>(in_.graph.size());
    std::vector<int> taken(static_cast<size_t>(nodes), -1);  // by which segment of its PS at first
    std::vector<char> stays(static_cast<size_t>(nodes), 0);
    std::set<int64_t> updated;
    for (const graph::Node& n : in_.graph.nodes()) {
      for (const Output& in : n.inputs) {
        const auto from = static_cast<size_t>(in.node);
        if (place_[from] != place_[n.id]) stays[from] = 1;
        taken[from] = taken[from] < 0 ? stage_[n.id] : std::min(taken[from], stage_[n.id]);
      }
      for (const int c : n.control_inputs) stays[static_cast<size_t>(c)] = 1;
      if (IsUpdate(n.id)) updated.insert(graph::AttrOr<int64_t>(n.attrs, "shard", -1));
    }
    for (const auto& r : in_.results) stays[static_cast<size_t>(r.output.node)] = 1;
    for (const graph::Node& n : in_.graph.nodes()) {
      const auto id = static_cast<size_t>(n.id);
      const bool reads = place_[n.id] != kOnWorker && n.inputs.empty() &&
                         n.control_inputs.empty() && !IsUpdate(n.id) && !IsReplicable(n);
      if (!reads || stays[id] != 0 || taken[id] < 0) continue;
      if (updated.count(graph::AttrOr<int64_t>(n.attrs, "shard", -1)) > 0) continue;
      stage_[n.id] = std::max(stage_[n.id], taken[id]);
    }
  }

  bool IsOnGpu(int id) const { return graph::AttrOr<bool>(node(id).attrs, kOnGpuAttr, false); }

  // Whether rows are looked up in the memory of a GPU, for the worker alone.
  bool GivesGpuRows(Output o) const {
    if (!IsOnGpu(o.node) || IsUpdate(o.node)) return false;
    for (const graph::Node& n : in_.graph.nodes()) {
      if (place_[n.id] != place_[o.node] || stage_[n.id] != stage_[o.node]) continue;
      if (std::find(n.inputs.begin(), n.inputs.end(), o) != n.inputs.end()) return false;
    }
    return true;
  }

  // Whether a segment of the PS takes it as gradients of rows in the memory of a GPU alone.
  bool TakenByGpuRows(Output o, Site site) const {
    if (in_.graph.type(o).dtype != DType::kF32) return false;  // a PS widens it on the host
    for (const graph::Node& n : in_.graph.nodes()) {
      if (IsReplicable(n) || SiteOf(n.id) != site) continue;
      for (size_t i = 0; i < n.inputs.size(); ++i) {
        if (n.inputs[i] == o && !(i == 1 && IsOnGpu(n.id) && IsUpdate(n.id))) return false;
      }
    }
    return true;
  }

  bool IsUpdate(int id) const { return function::IsUpdate(in_.graph, node(id)); }

  Site SiteOf(int id) const { return {place_[id], stage_[id]}; }

  // What each segment sends and receives, each tensor once, in a fixed order.
  void CollectCrossings() {
    const auto add = [](std::vector<Output>* list, Output o) {
      if (std::find(list->begin(), list->end(), o) == list->end()) list->push_back(o);
    };
    for (const graph::Node& n : in_.graph.nodes()) {
      if (IsReplicable(n)) continue;
      for (const Output& in : n.inputs) {
        if (IsReplicable(node(in.node))) continue;
        const bool from_ps = place_[in.node] != kOnWorker, to_ps = place_[n.id] != kOnWorker;
        if (from_ps && to_ps && SiteOf(in.node) == SiteOf(n.id)) continue;
        if (from_ps) add(&to_worker_[SiteOf(in.node)], in);
        if (to_ps) add(&to_ps_[SiteOf(n.id)], in);
      }
    }
    for (const auto& r : in_.results) {
      if (place_[r.output.node] != kOnWorker && !IsReplicable(node(r.output.node))) {
        add(&to_worker_[SiteOf(r.output.node)], r.output);
      }
    }
  }

  // What the node waits for without a tensor, where it is copied to: nodes of its own component,
  // and on the worker the calls to the others. A segment that starts later than all of these is
  // told by its call, see AddCall.
  std::vector<int> ControlsIn(const graph::Node& n) const {
    std::set<int> controls;
    for (const int c : n.control_inputs) {
      if (IsReplicable(node(c))) continue;
      const bool here =
          SiteOf(c) == SiteOf(n.id) || (place_[c] == kOnWorker && place_[n.id] == kOnWorker);
      if (here) {
        if (const auto it = copied_.find(c); it != copied_.end()) controls.insert(it->second);
      } else if (place_[n.id] == kOnWorker) {
        if (const auto it = calls_.find(SiteOf(c)); it != calls_.end()) controls.insert(it->second);
      }
    }
    return {controls.begin(), controls.end()};
  }

  // The same for a call: of all that its segment waits for elsewhere.
  std::vector<int> ControlsOfCall(int p, int s) const {
    std::set<int> controls;
    for (const graph::Node& n : in_.graph.nodes()) {
      if (place_[n.id] != p || stage_[n.id] != s || IsReplicable(n)) continue;
      for (const int c : n.control_inputs) {
        if (IsReplicable(node(c)) || SiteOf(c) == SiteOf(n.id)) continue;
        if (place_[c] == kOnWorker) {
          const auto it = copied_.find(c);
          if (it != copied_.end()) controls.insert(it->second);
        } else if (const auto it = calls_.find(SiteOf(c)); it != calls_.end()) {
          controls.insert(it->second);
        }
      }
    }
    return {controls.begin(), controls.end()};
  }

  // Copies a node into `out`, with `mapped` telling where its inputs are there.
  absl::StatusOr<int> Copy(const graph::Node& n, absl::flat_hash_map<Output, Output>* mapped,
                           graph::Function* out) {
    graph::Node copy = n;
    copy.control_inputs = ControlsIn(n);
    // Servers compute on CPUs; a constant that a GPU was asked for may be one of theirs, too.
    if (out != &partition_.worker && copy.device.has_device) copy.device.device = Device{};
    for (Output& in : copy.inputs) {
      if (!mapped->contains(in)) {
        COX_CHECK(IsReplicable(node(in.node)), n.name, " misses an input");
        ASSIGN_OR_RETURN(int constant, Copy(node(in.node), mapped, out));
        (*mapped)[in] = {constant, 0};
      }
      in = mapped->at(in);
    }
    ASSIGN_OR_RETURN(int id, out->graph.Add(std::move(copy)));
    copied_[n.id] = id;
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      (*mapped)[{n.id, static_cast<int>(i)}] = {id, static_cast<int>(i)};
    }
    return id;
  }

  absl::Status BuildSegment(int p, int s) {
    graph::Function segment(absl::StrCat(in_.name, "/ps:", p, "/", s), in_.graph.registry());
    absl::flat_hash_map<Output, Output> mapped;
    for (const Output& o : to_ps_[{p, s}]) {
      const TensorType& type = in_.graph.type(o);
      const std::string name = absl::StrCat(node(o.node).name, ":", o.index);
      graph::Node arg;
      arg.op = "Arg";
      arg.name = absl::StrCat("recv/", name);
      arg.attrs = {{"index", static_cast<int>(segment.arguments.size())},
                   {"dtype", type.dtype},
                   {"shape", type.shape}};
      ASSIGN_OR_RETURN(int id, segment.graph.Add(std::move(arg)));
      segment.arguments.push_back({name, type, id});
      mapped[o] = {id, 0};
    }
    for (const graph::Node& n : in_.graph.nodes()) {
      if (place_[n.id] != p || stage_[n.id] != s || IsReplicable(n)) continue;
      ASSIGN_OR_RETURN(int id, Copy(n, &mapped, &segment));
      if (IsOnGpu(n.id) && !IsUpdate(n.id) && !GivesGpuRows({n.id, 0})) {
        segment.graph.mutable_node(id)->attrs.erase(kOnGpuAttr);
      }
      if (n.outputs.empty() || IsUpdate(n.id)) segment.targets.push_back(id);
    }
    for (const Output& o : to_worker_[{p, s}]) {
      segment.results.push_back({absl::StrCat(node(o.node).name, ":", o.index), mapped.at(o)});
    }
    partition_.segments[p].push_back(std::move(segment));
    return absl::OkStatus();
  }

  absl::Status AddCall(int p, int s, absl::flat_hash_map<Output, Output>* mapped) {
    graph::Node call;
    call.op = kPsCallOp;
    call.name = absl::StrCat("call/ps:", p, "/", s);
    for (const Output& o : to_ps_[{p, s}]) call.inputs.push_back(mapped->at(o));
    call.control_inputs = ControlsOfCall(p, s);
    std::vector<TensorType> types;
    for (const Output& o : to_worker_[{p, s}]) types.push_back(in_.graph.type(o));
    call.attrs = {{"ps", p}, {"segment", s}, {"types", EncodeTypes(types)}};
    std::vector<int64_t> gpu_inputs, gpu_outputs;
    for (size_t i = 0; i < to_ps_[{p, s}].size(); ++i) {
      if (!TakenByGpuRows(to_ps_[{p, s}][i], {p, s})) continue;
      gpu_inputs.push_back(static_cast<int64_t>(i));
    }
    for (size_t i = 0; i < types.size(); ++i) {
      if (GivesGpuRows(to_worker_[{p, s}][i])) gpu_outputs.push_back(static_cast<int64_t>(i));
    }
    if (!gpu_inputs.empty()) call.attrs[kGpuInputs] = std::move(gpu_inputs);
    if (!gpu_outputs.empty()) call.attrs[kGpuOutputs] = std::move(gpu_outputs);
    ASSIGN_OR_RETURN(int id, partition_.worker.graph.Add(std::move(call)));
    calls_[{p, s}] = id;
    int index = 0;
    for (const Output& o : to_worker_[{p, s}]) (*mapped)[o] = {id, index++};
    partition_.worker.targets.push_back(id);
    return absl::OkStatus();
  }

  absl::Status BuildWorker() {
    absl::flat_hash_map<Output, Output> mapped;
    int stages = 0;
    for (const graph::Node& n : in_.graph.nodes()) stages = std::max(stages, stage_[n.id] + 1);
    for (int s = 0; s < stages; ++s) {
      for (const graph::Node& n : in_.graph.nodes()) {
        if (place_[n.id] != kOnWorker || stage_[n.id] != s || IsReplicable(n)) continue;
        ASSIGN_OR_RETURN(int id, Copy(n, &mapped, &partition_.worker));
        if (n.op == "Arg") {
          for (const auto& a : in_.arguments) {
            if (a.node == n.id) partition_.worker.arguments.push_back({a.name, a.type, id});
          }
        } else if (n.outputs.empty()) {
          partition_.worker.targets.push_back(id);
        }
      }
      for (int p = 0; p < num_ps_; ++p) {
        if (s <= last_segment_[p] && !SegmentIsEmpty(p, s)) {
          RETURN_IF_ERROR(AddCall(p, s, &mapped));
        }
      }
    }
    for (const auto& r : in_.results) {
      if (!mapped.contains(r.output)) {
        ASSIGN_OR_RETURN(int id, Copy(node(r.output.node), &mapped, &partition_.worker));
        mapped[r.output] = {id, r.output.index};
      }
      partition_.worker.results.push_back({r.name, mapped.at(r.output)});
    }
    return absl::OkStatus();
  }

  bool SegmentIsEmpty(int p, int s) const {
    const graph::Function& segment = partition_.segments[p][s];
    return segment.results.empty() && segment.targets.empty();
  }

  const graph::Function& in_;
  std::vector<int> place_;
  int num_ps_;
  std::vector<int> stage_;
  std::vector<int> last_segment_;
  std::map<Site, std::vector<Output>> to_ps_, to_worker_;
  std::map<int, int> copied_;  // nodes that are no constants, to their component
  std::map<Site, int> calls_;  // of the worker
  Partition partition_;
};

}  // namespace

void RegisterPsCall(graph::OpRegistry* registry) {
  graph::OpSchema schema;
  schema.name = kPsCallOp;
  schema.max_inputs = -1;
  schema.stateful = true;
  schema.not_differentiable = true;
  schema.infer = InferPsCall;
  registry->Register(std::move(schema));
}

PsCallTarget GetPsCallTarget(const graph::Node& node) {
  return {static_cast<int>(graph::AttrOr<int64_t>(node.attrs, "ps", 0)),
          static_cast<int>(graph::AttrOr<int64_t>(node.attrs, "segment", 0))};
}

std::vector<int64_t> GpuInputs(const graph::Node& node) {
  return graph::AttrOr<std::vector<int64_t>>(node.attrs, kGpuInputs, {});
}

std::vector<int64_t> GpuOutputs(const graph::Node& node) {
  return graph::AttrOr<std::vector<int64_t>>(node.attrs, kGpuOutputs, {});
}

absl::StatusOr<std::vector<int>> Place(const graph::Function& function, int num_ps,
                                       const std::function<int(ShardId)>& ps_of_shard) {
  std::vector<int> place(function.graph.size(), kOnWorker);
  for (const graph::Node& n : function.graph.nodes()) {
    const std::string who = absl::StrCat("node '", n.name, "'");
    const std::string& job = n.device.job;
    int wanted = kOnWorker;
    if (job == "ps") {
      wanted = std::max(0, n.device.task);
      if (wanted >= num_ps) {
        return absl::InvalidArgumentError(absl::StrCat(who, ": device ", n.device.ToString(),
                                                       " is not there; the cluster has ", num_ps,
                                                       " parameter servers"));
      }
    } else if (!job.empty() && job != "worker") {
      return absl::InvalidArgumentError(absl::StrCat(who, ": device ", n.device.ToString(),
                                                     " is neither of job worker nor of job ps"));
    } else if (n.device.task >= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(who, ": device ", n.device.ToString(),
                       " names one worker, but a function runs on whichever worker is free"));
    }
    if (function.graph.registry()->Find(n.op)->on_parameter_server) {
      const auto shard = graph::GetAttr<int64_t>(n.attrs, "shard");
      if (!shard.ok()) return Annotate(shard.status(), who);
      const int ps = ps_of_shard(static_cast<ShardId>(*shard));
      if (ps < 0 || ps >= num_ps) {
        return absl::InvalidArgumentError(absl::StrCat(who, ": no shard ", *shard));
      }
      if (!job.empty() && wanted != ps) {
        return absl::InvalidArgumentError(
            absl::StrCat(who, ": asked for device ", n.device.ToString(),
                         ", but its shard lives on /job:ps/task:", ps));
      }
      wanted = ps;
    }
    if (n.op == "Arg" && wanted != kOnWorker) {
      return absl::InvalidArgumentError(absl::StrCat(who, ": arguments belong to the worker"));
    }
    place[n.id] = wanted;
  }
  return place;
}

absl::StatusOr<Partition> PartitionFunction(const graph::Function& function, int num_ps,
                                            const std::function<int(ShardId)>& ps_of_shard) {
  // Its calls would name segments that this partition does not have.
  for (const graph::Node& n : function.graph.nodes()) {
    if (n.op != kPsCallOp) continue;
    return absl::InvalidArgumentError(absl::StrCat("function '", function.name, "': node '", n.name,
                                                   "' is a ", kPsCallOp,
                                                   ", which only partitioning adds"));
  }
  ASSIGN_OR_RETURN(std::vector<int> place, Place(function, num_ps, ps_of_shard));
  graph::Function numbered = function;
  NumberUpdates(&numbered);
  return Partitioner(numbered, std::move(place), num_ps).Run();
}

}  // namespace coxswain::function
