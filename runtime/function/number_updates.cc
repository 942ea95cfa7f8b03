#include "runtime/function/number_updates.h"

#include <map>

#include "runtime/graph/attr.h"
#include "runtime/graph/op.h"

namespace coxswain::function {
namespace {

// Of the ops on shards, those without an output change them.
bool IsUpdate(const graph::Graph& graph, const graph::Node& node) {
  return node.outputs.empty() && graph.registry()->Find(node.op)->on_parameter_server &&
         node.attrs.contains("shard");
}

}  // namespace

void NumberUpdates(graph::Function* function) {
  std::map<int64_t, int64_t> next;  // by shard
  for (int id = 0; id < function->graph.size(); ++id) {
    graph::Node* node = function->graph.mutable_node(id);
    if (!IsUpdate(function->graph, *node)) continue;
    node->attrs[kUpdateAttr] = next[graph::AttrOr<int64_t>(node->attrs, "shard", 0)]++;
  }
}

}  // namespace coxswain::function
