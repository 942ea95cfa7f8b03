#include "kernels/compute.h"

#include <algorithm>
#include <iterator>

namespace coxswain::kernels {
namespace {

constexpr const char* kProducts[] = {"MatMul",         "BatchMatMul", "FusedDense",
                                     "DenseInputGrad", "MatMulShard", "ApplyMatMul"};

// These compute in f32 always, because what they tell is an order.
constexpr const char* kRankings[] = {"RankShard", "TopKShard"};

template <size_t n>
bool IsOneOf(const char* const (&ops)[n], const std::string& op) {
  return std::any_of(std::begin(ops), std::end(ops), [&](const char* one) { return op == one; });
}

}  // namespace

void SetCompute(ComputeType type, bool same_on_any_threads, graph::Graph* graph) {
  const std::string word = type == ComputeType::kBf16 ? "bf16" : "tf32";
  for (int id = 0; id < graph->size(); ++id) {
    graph::Node* const node = graph->mutable_node(id);
    const bool product = IsOneOf(kProducts, node->op);
    if (product && type != ComputeType::kF32) node->attrs.try_emplace(kComputeAttr, word);
    if (same_on_any_threads && (product || IsOneOf(kRankings, node->op))) {
      node->attrs.try_emplace(kSameOnAnyThreadsAttr, true);
    }
  }
}

}  // namespace coxswain::kernels
