#include "kernels/read_averages.h"

#include <algorithm>
#include <iterator>

#include "kernels/shard_target.h"

namespace coxswain::kernels {
namespace {

constexpr const char* kReads[] = {"ReadVariable", "GatherShard", "MatMulShard", "RankShard",
                                  "TopKShard"};

}  // namespace

void ReadAverages(graph::Graph* graph) {
  for (int id = 0; id < graph->size(); ++id) {
    graph::Node* const node = graph->mutable_node(id);
    const bool reads = std::any_of(std::begin(kReads), std::end(kReads),
                                   [&](const char* op) { return node->op == op; });
    if (reads) node->attrs.try_emplace(kAveragesAttr, true);
  }
}

}  // namespace coxswain::kernels
