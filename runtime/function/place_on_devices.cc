// In three steps: where each node runs (Choose), which values cross and which of them travel
// together (Group), and the new graph in an order that suits the copies (Build).
#include "runtime/function/place_on_devices.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/function/partition.h"
#include "runtime/graph/op.h"

namespace coxswain::function {
namespace {

constexpr int kNone = std::numeric_limits<int>::max();

// Where a node runs: the number of a device, or this.
constexpr int kHost = -1;

absl::Status InferCopy(graph::InferenceContext* context) {
  for (int i = 0; i < context->num_inputs(); ++i) {
    context->AddOutput(context->dtype(i), context->shape(i));
  }
  return absl::OkStatus();
}

bool IsConst(const graph::Node& node) { return node.op == "Const"; }
bool IsCall(const graph::Node& node) { return node.op == kPsCallOp; }

bool HasFloatingOutput(const graph::Node& node) {
  return std::any_of(node.outputs.begin(), node.outputs.end(),
                     [](const TensorType& type) { return IsFloating(type.dtype); });
}

// A kind of copy: its op, and how its nodes' names begin.
enum Way { kDown, kUp, kAcross };
constexpr const char* kOps[] = {kCopyToDeviceOp, kCopyToHostOp, kCopyBetweenDevicesOp};
constexpr const char* kNames[] = {"to_device/", "to_host/", "between_devices/"};

// Values that travel together, as one node.
struct CopyGroup {
  Way way = kDown;
  int device = 0;  // that it names
  std::vector<Output> members;
};

// A value that is needed somewhere.
struct Needed {
  Output value;
  int by = kHost;  // the side
};

class Placer {
 public:
  Placer(const graph::Function& function, int devices,
         absl::FunctionRef<bool(const graph::Node&)> has_code)
      : in_(function),
        devices_(devices),
        has_code_(has_code),
        side_(function.graph.size(), kHost),
        out_(function.name, function.graph.registry()) {
    out_.device = function.device;
  }

  absl::StatusOr<graph::Function> Run() {
    RETURN_IF_ERROR(Choose());
    MarkWaits();
    Group();
    RETURN_IF_ERROR(Build());
    return std::move(out_);
  }

 private:
  const graph::Node& node(int id) const { return in_.graph.node(id); }
  absl::Span<const graph::Node> nodes() const { return in_.graph.nodes(); }

  // --- where each node runs

  // What the first frames wait for: they are to leave as soon as they can.
  std::vector<bool> NeededByFirstFrames() const {
    std::vector<bool> needed(in_.graph.size(), false);
    for (int id = in_.graph.size() - 1; id >= 0; --id) {
      const graph::Node& n = node(id);
      if (!needed[id] && !(IsCall(n) && GetPsCallTarget(n).segment == 0)) continue;
      for (const Output& in : n.inputs) needed[in.node] = true;
      for (int control : n.control_inputs) needed[control] = true;
    }
    return needed;
  }

  absl::Status Choose() {
    const std::vector<bool> first = NeededByFirstFrames();
    for (const graph::Node& n : nodes()) {
      if (IsCopy(n)) {
        return absl::InvalidArgumentError(
            absl::StrCat("node '", n.name, "' is a ", n.op, ", which only placement adds"));
      }
      if (IsConst(n)) continue;  // on whichever side it is used
      const graph::OpSchema& schema = *in_.graph.registry()->Find(n.op);
      const bool stays =
          schema.on_device_for_gpu_rows && SideOfInputs(n) != kHost && GoesToGpuRows(n.id);
      const bool free = n.op != "Arg" && !IsCall(n) && (!schema.on_host || stays);
      if (n.device.has_device) {
        ASSIGN_OR_RETURN(side_[n.id], Pinned(n, free));
      } else if (free && !first[n.id]) {
        const int side = SideOfInputs(n);
        const bool wanted = side != kHost || HasFloatingOutput(n);
        if (wanted && has_code_(n)) side_[n.id] = std::max(side, 0);
      }
      used_devices_ = std::max(used_devices_, side_[n.id] + 1);
    }
    return absl::OkStatus();
  }

  // Whether its result is taken by calls alone, for rows in the memory of a GPU.
  bool GoesToGpuRows(int id) const {
    const Output value{id, 0};
    bool any = false;
    for (const auto& result : in_.results) {
      if (result.output == value) return false;
    }
    for (const graph::Node& at : nodes()) {
      for (size_t i = 0; i < at.inputs.size(); ++i) {
        if (!(at.inputs[i] == value)) continue;
        const std::vector<int64_t> free = IsCall(at) ? GpuInputs(at) : std::vector<int64_t>();
        if (std::find(free.begin(), free.end(), static_cast<int64_t>(i)) == free.end()) {
          return false;
        }
        any = true;
      }
    }
    return any;
  }

  // The device that most of its inputs are on; of as many, the first input's. kHost: none is.
  int SideOfInputs(const graph::Node& n) const {
    std::map<int, int> inputs;
    int best = kHost;
    for (const Output& in : n.inputs) {
      if (side_[in.node] != kHost) ++inputs[side_[in.node]];
    }
    for (const Output& in : n.inputs) {
      const int side = side_[in.node];
      if (side != kHost && (best == kHost || inputs[side] > inputs[best])) best = side;
    }
    return best;
  }

  absl::StatusOr<int> Pinned(const graph::Node& n, bool free) const {
    if (n.device.device.type == DeviceType::kCpu) return kHost;
    const std::string who =
        absl::StrCat("node '", n.name, "': device ", n.device.ToString(), " is asked for, but ");
    const int index = n.device.device.index;
    if (index < 0 || index >= devices_) {
      return absl::InvalidArgumentError(
          devices_ == 1 ? absl::StrCat(who, "there is one GPU, GPU:0")
                        : absl::StrCat(who, "there are GPU:0 to GPU:", devices_ - 1));
    }
    if (!free) return absl::InvalidArgumentError(absl::StrCat(who, n.op, " runs on the host only"));
    if (!has_code_(n)) {
      return absl::InvalidArgumentError(
          absl::StrCat(who, "there is no code for ", n.op, " on it with these types"));
    }
    return index;
  }

  // --- what crosses, and what of it travels together

  bool on_device(int id) const { return side_[id] != kHost; }
  bool Crosses(int from, int to) const { return !IsConst(node(from)) && side_[from] != side_[to]; }

  // early_: neither a call nor a device is needed for it. level_: how often what it is made of
  // has come up from a device, one after the other; values of one level never wait for each
  // other's copies. call_after_: the first call that is made of it on the host.
  void MarkWaits() {
    const int n = in_.graph.size();
    early_.assign(n, true);
    level_.assign(n, 0);
    call_after_.assign(n, kNone);
    for (const graph::Node& at : nodes()) {
      const auto after = [&](int id) {
        if (IsCall(node(id)) || on_device(id) || !early_[id]) early_[at.id] = false;
        const bool up = Crosses(id, at.id) && !on_device(at.id);
        level_[at.id] = std::max(level_[at.id], level_[id] + (up ? 1 : 0));
      };
      for (const Output& in : at.inputs) after(in.node);
      for (int control : at.control_inputs) after(control);
    }
    for (int id = n - 1; id >= 0; --id) {
      if (on_device(id)) continue;
      const int call = IsCall(node(id)) ? id : call_after_[id];
      for (const Output& in : node(id).inputs) {
        if (!on_device(in.node)) call_after_[in.node] = std::min(call_after_[in.node], call);
      }
    }
  }

  void Group() {
    for (const graph::Node& at : nodes()) {
      const int to = side_[at.id];
      for (const Output& in : at.inputs) {
        if (to == kHost || !Crosses(in.node, at.id)) continue;
        if (on_device(in.node)) {
          Join({kAcross, in.node, 0, to}, {in, to});
        } else {
          down_.push_back({in, to});
        }
      }
    }
    for (const Needed& needed : down_) {
      const int source = needed.value.node;
      const bool rides = early_[source] && !IsCall(node(source));
      Join({kDown, rides ? FirstCallWithRows(needed.by) : source, 0, needed.by}, needed);
    }
    for (const graph::Node& at : nodes()) {
      if (on_device(at.id)) continue;
      const int call = IsCall(at) ? at.id : call_after_[at.id];
      for (const Output& in : at.inputs) {
        if (Crosses(in.node, at.id) && call != kNone) JoinUp(call, in);
      }
    }
    const int last = last_call_up_;
    const std::vector<bool> after_last = MadeOf(last);
    const auto join_last = [&](Output value) {
      const bool rides =
          last != kNone && !after_last[value.node] && groups_of_.contains(UpKey(last, value));
      JoinUp(rides ? last : kNone, value);
    };
    for (const auto& result : in_.results) {
      const int id = result.output.node;
      if (!IsConst(node(id)) && on_device(id)) join_last(result.output);
    }
    for (const graph::Node& at : nodes()) {
      if (on_device(at.id) || IsCall(at) || call_after_[at.id] != kNone) continue;
      for (const Output& in : at.inputs) {
        if (Crosses(in.node, at.id)) join_last(in);
      }
    }
  }

  // The first call of which something goes to the device, and that needs nothing from any.
  int FirstCallWithRows(int device) const {
    for (const Needed& needed : down_) {
      const int source = needed.value.node;
      if (needed.by == device && IsCall(node(source)) && level_[source] == 0) return source;
    }
    return kNone;
  }

  // Which nodes are made of what `call` returns, itself included.
  std::vector<bool> MadeOf(int call) const {
    std::vector<bool> made(in_.graph.size(), false);
    if (call == kNone) return made;
    made[call] = true;
    for (const graph::Node& at : nodes()) {
      for (const Output& in : at.inputs) {
        if (made[in.node]) made[at.id] = true;
      }
      for (int control : at.control_inputs) {
        if (made[control]) made[at.id] = true;
      }
    }
    return made;
  }

  // The call or node that it goes with, the level, and the device that the copy names.
  using Key = std::tuple<Way, int, int, int>;
  Key UpKey(int call, Output value) const {
    return {kUp, call, level_[value.node], side_[value.node]};
  }

  void Join(const Key& key, const Needed& needed) {
    const std::pair<Output, int> copied{needed.value, needed.by};
    if (copied_.contains(copied)) return;
    const auto [it, added] = groups_of_.emplace(key, groups_.size());
    if (added) groups_.push_back({std::get<0>(key), std::get<3>(key), {}});
    CopyGroup& group = groups_[it->second];
    copied_[copied] = {static_cast<int>(it->second), static_cast<int>(group.members.size())};
    group.members.push_back(needed.value);
  }
  void JoinUp(int call, Output value) {
    if (call != kNone && (last_call_up_ == kNone || call > last_call_up_)) last_call_up_ = call;
    Join(UpKey(call, value), {value, kHost});
  }

  // --- the new graph

  // What is emitted: the nodes as they are, the constants of each device, the groups.
  int constant_item(int device, int id) const { return (1 + device) * in_.graph.size() + id; }
  int group_item(int group) const { return constant_item(used_devices_, 0) + group; }

  // Whether a constant is used on that side.
  std::vector<bool> ConstantsOf(int side) const {
    std::vector<bool> used(in_.graph.size(), false);
    for (const graph::Node& at : nodes()) {
      if (side_[at.id] != side) continue;
      for (const Output& in : at.inputs) used[in.node] = used[in.node] || IsConst(node(in.node));
    }
    if (side != kHost) return used;
    for (const auto& result : in_.results) {
      if (IsConst(node(result.output.node))) used[result.output.node] = true;
    }
    return used;
  }

  // The item that gives `value` to a node of that side.
  int ItemFor(Output value, int side) const {
    if (IsConst(node(value.node))) {
      return side == kHost ? value.node : constant_item(side, value.node);
    }
    if (side_[value.node] == side) return value.node;
    return group_item(copied_.at({value, side}).first);
  }

  absl::Status Build() {
    const std::vector<bool> host_constants = ConstantsOf(kHost);
    std::vector<std::vector<int>> after(static_cast<size_t>(group_item(0)) + groups_.size());
    std::vector<int> pending(after.size(), 0), rank(after.size(), 0);
    const auto wait = [&](int item, int for_item) {
      after[for_item].push_back(item);
      ++pending[item];
    };
    std::priority_queue<std::pair<int, int>, std::vector<std::pair<int, int>>, std::greater<>>
        ready;
    for (const graph::Node& at : nodes()) {
      rank[at.id] = 2 * at.id;
      for (const Output& in : at.inputs) wait(at.id, ItemFor(in, side_[at.id]));
      for (int control : at.control_inputs) {
        if (!IsConst(node(control))) wait(at.id, control);
      }
      const bool there = !IsConst(at) || host_constants[at.id];
      if (pending[at.id] == 0 && there) ready.push({rank[at.id], at.id});
    }
    for (int device = 0; device < used_devices_; ++device) {
      const std::vector<bool> constants = ConstantsOf(device);
      for (int id = 0; id < in_.graph.size(); ++id) {
        if (constants[id]) ready.push({2 * id, constant_item(device, id)});
      }
    }
    for (size_t g = 0; g < groups_.size(); ++g) {
      const int item = group_item(static_cast<int>(g));
      for (const Output& member : groups_[g].members) {
        rank[item] = std::max(rank[item], 2 * member.node + 1);
        wait(item, member.node);
      }
    }
    new_id_.assign(after.size(), -1);
    while (!ready.empty()) {
      const int item = ready.top().second;
      ready.pop();
      ASSIGN_OR_RETURN(new_id_[item], Emit(item));
      for (int next : after[item]) {
        if (--pending[next] == 0) ready.push({rank[next], next});
      }
    }
    for (const graph::Node& at : nodes()) {
      const bool there = !IsConst(at) || host_constants[at.id];
      COX_CHECK(!there || new_id_[at.id] >= 0, "placement lost node ", at.name);
    }
    for (const auto& a : in_.arguments) {
      out_.arguments.push_back({a.name, a.type, new_id_[a.node]});
    }
    for (const auto& r : in_.results) out_.results.push_back({r.name, Mapped(r.output, kHost)});
    for (int target : in_.targets) out_.targets.push_back(new_id_[target]);
    return absl::OkStatus();
  }

  Output Mapped(Output value, int side) const {
    const int item = ItemFor(value, side);
    const bool copied = item >= group_item(0);
    return {new_id_[item], copied ? copied_.at({value, side}).second : value.index};
  }

  static DeviceSpec Gpu(int index) {
    return {"", -1, Device{DeviceType::kGpu, static_cast<int16_t>(index)}, true};
  }

  absl::StatusOr<int> Emit(int item) {
    graph::Node made;
    if (item >= group_item(0)) {
      const CopyGroup& group = groups_[item - group_item(0)];
      made.op = kOps[group.way];
      made.device = Gpu(group.device);
      made.name = absl::StrCat(kNames[group.way], item - group_item(0));
      for (const Output& member : group.members) {
        made.inputs.push_back({new_id_[member.node], member.index});
      }
      return out_.graph.Add(std::move(made));
    }
    const int id = item % in_.graph.size();
    const bool constant = item != id;
    const int side = constant ? item / in_.graph.size() - 1 : side_[id];
    made = node(id);
    if (constant) {
      made.name = side == 0 ? absl::StrCat("on_device/", made.name)
                            : absl::StrCat("on_device:", side, "/", made.name);
    }
    if (side != kHost) made.device = Gpu(side);
    if (side == kHost && IsConst(made)) made.device = {};  // a pin says nothing of where it is used
    for (Output& in : made.inputs) in = Mapped(in, side);
    made.control_inputs.clear();
    for (int control : node(id).control_inputs) {  // a constant has always been there
      if (!IsConst(node(control))) made.control_inputs.push_back(new_id_[control]);
    }
    return out_.graph.Add(std::move(made));
  }

  const graph::Function& in_;
  const int devices_;
  const absl::FunctionRef<bool(const graph::Node&)> has_code_;
  std::vector<int> side_;
  int used_devices_ = 0;
  std::vector<bool> early_;
  std::vector<int> level_, call_after_;
  std::vector<Needed> down_;
  int last_call_up_ = kNone;
  std::map<Key, size_t> groups_of_;
  std::vector<CopyGroup> groups_;
  // By value and side: its group, and its place there.
  absl::flat_hash_map<std::pair<Output, int>, std::pair<int, int>> copied_;
  std::vector<int> new_id_;  // by item
  graph::Function out_;
};

}  // namespace

bool IsCopy(const graph::Node& node) {
  return node.op == kCopyToDeviceOp || node.op == kCopyToHostOp || node.op == kCopyBetweenDevicesOp;
}

void RegisterCopies(graph::OpRegistry* registry) {
  for (const char* op : {kCopyToDeviceOp, kCopyToHostOp, kCopyBetweenDevicesOp}) {
    registry->Register({.name = op,
                        .max_inputs = -1,
                        .stateful = true,
                        .not_differentiable = true,
                        .infer = InferCopy});
  }
}

absl::StatusOr<graph::Function> PlaceOnDevices(
    const graph::Function& function, int devices,
    absl::FunctionRef<bool(const graph::Node&)> has_code) {
  auto placed = Placer(function, devices, has_code).Run();
  if (placed.ok()) return placed;
  return Annotate(placed.status(), absl::StrCat("function '", function.name, "'"));
}

bool IsOnDevice(const graph::Node& node) {
  return node.device.has_device && node.device.device.type == DeviceType::kGpu && !IsCopy(node);
}

int DeviceOf(const graph::Node& node) { return node.device.device.index; }

}  // namespace coxswain::function
