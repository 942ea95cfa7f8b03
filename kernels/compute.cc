#include "kernels/compute.h"

#include <algorithm>
#include <iterator>

namespace coxswain::kernels {
namespace {

constexpr const char* kProducts[] = {"MatMul",         "BatchMatMul", "FusedDense",
                                     "DenseInputGrad", "MatMulShard", "ApplyMatMul"};

}  // namespace

void SetCompute(ComputeType type, graph::Graph* graph) {
  if (type == ComputeType::kF32) return;
  const std::string word = type == ComputeType::kBf16 ? "bf16" : "tf32";
  for (int id = 0; id < graph->size(); ++id) {
    graph::Node* const node = graph->mutable_node(id);
    const bool product = std::any_of(std::begin(kProducts), std::end(kProducts),
                                     [&](const char* op) { return node->op == op; });
    if (product) node->attrs.try_emplace(kComputeAttr, word);
  }
}

}  // namespace coxswain::kernels
