#include "runtime/function/number_updates.h"

#include <algorithm>
#include <map>

#include "runtime/graph/attr.h"
#include "runtime/graph/op.h"

namespace coxswain::function {

// Of the ops on shards, those that have a number, or no output.
bool IsUpdate(const graph::Graph& graph, const graph::Node& node) {
  const graph::OpSchema& schema = *graph.registry()->Find(node.op);
  if (!schema.on_parameter_server || !node.attrs.contains("shard")) return false;
  return node.outputs.empty() ||
         std::find(schema.attrs.begin(), schema.attrs.end(), kUpdateAttr) != schema.attrs.end();
}

bool IsFetch(const graph::Graph& graph, const graph::Node& node) {
  return !node.outputs.empty() && IsUpdate(graph, node);
}

void NumberUpdates(graph::Function* function) {
  std::map<int64_t, int64_t> next;  // by shard
  for (int id = 0; id < function->graph.size(); ++id) {
    graph::Node* node = function->graph.mutable_node(id);
    if (!IsUpdate(function->graph, *node)) continue;
    node->attrs[kUpdateAttr] = next[graph::AttrOr<int64_t>(node->attrs, "shard", 0)]++;
  }
}

}  // namespace coxswain::function
