// A function that reads the moving averages of variables instead of their values, where these are
// kept (OptimizerSpec.ema_decay): for evaluation.
#pragma once

#include "runtime/graph/graph.h"

namespace coxswain::kernels {

// Sets the attribute kAveragesAttr on all nodes that read a shard.
void ReadAverages(graph::Graph* graph);

}  // namespace coxswain::kernels
