// How the products of a function are computed: an attribute of its nodes, set by one pass when the
// function is complete, gradients included.
#pragma once

#include <string>

#include "coxswain/tensor.h"
#include "runtime/graph/graph.h"

namespace coxswain::kernels {

// Of MatMul, BatchMatMul, FusedDense, DenseInputGrad, MatMulShard and ApplyMatMul.
inline constexpr char kComputeAttr[] = "compute";

// Sets the attribute on all nodes that take it. A node that has it already keeps its value.
void SetCompute(ComputeType type, graph::Graph* graph);

}  // namespace coxswain::kernels
