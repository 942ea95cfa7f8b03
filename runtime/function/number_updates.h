// Numbers the updates of a function, so that a shard's ledger can tell them apart.
//
// The number must be the same in every attempt of a closure, also when shards have moved to other
// parameter servers meanwhile and the function was partitioned anew. So it comes from the function
// before it is partitioned, and not from segments.
#pragma once

#include "runtime/graph/graph.h"

namespace coxswain::function {

// The attribute of update nodes that holds the number: int64, 0 when it is left out.
inline constexpr char kUpdateAttr[] = "update";

// Whether the node changes a shard.
bool IsUpdate(const graph::Graph& graph, const graph::Node& node);

// Whether it also returns what was there before (FetchAdd).
bool IsFetch(const graph::Graph& graph, const graph::Node& node);

// Gives the nodes that change a shard the numbers 0, 1, 2, ... within their shard, in the order of
// the graph. The same function gives the same numbers.
void NumberUpdates(graph::Function* function);

}  // namespace coxswain::function
