#include "kernels/compute.h"

#include <algorithm>
#include <iterator>

namespace coxswain::kernels {
namespace {

constexpr const char* kProducts[] = {"MatMul",         "BatchMatMul", "FusedDense",
                                     "DenseInputGrad", "MatMulShard", "ApplyMatMul"};

}  // namespace

void SetCompute(ComputeType type, bool same_on_any_threads, graph::Graph* graph) {
  const std::string word = type == ComputeType::kBf16 ? "bf16" : "tf32";
  for (int id = 0; id < graph->size(); ++id) {
    graph::Node* const node = graph->mutable_node(id);
    const bool product = std::any_of(std::begin(kProducts), std::end(kProducts),
                                     [&](const char* op) { return node->op == op; });
    if (!product) continue;
    if (type != ComputeType::kF32) node->attrs.try_emplace(kComputeAttr, word);
    if (same_on_any_threads) node->attrs.try_emplace(kSameOnAnyThreadsAttr, true);
  }
}

}  // namespace coxswain::kernels
