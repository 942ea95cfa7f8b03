// How the products of a function are computed: attributes of its nodes, set by one pass when the
// function is complete, gradients included.
#pragma once

#include <string>

#include "coxswain/tensor.h"
#include "runtime/graph/graph.h"

namespace coxswain::kernels {

// Of MatMul, BatchMatMul, FusedDense, DenseInputGrad, MatMulShard and ApplyMatMul.
inline constexpr char kComputeAttr[] = "compute";
// Of the same ops, and of RankShard and TopKShard, a bool: MatMulProblem::same_on_any_threads.
inline constexpr char kSameOnAnyThreadsAttr[] = "same_on_any_threads";

// Sets the attributes on all nodes that take them. A node that has one already keeps its value.
void SetCompute(ComputeType type, bool same_on_any_threads, graph::Graph* graph);

}  // namespace coxswain::kernels
