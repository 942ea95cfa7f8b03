// How the products of a function are computed: an attribute of its nodes, set by one pass when the
// function is complete, gradients included.
#pragma once

#include <string>

#include "runtime/graph/graph.h"

namespace coxswain {

// Of MatMul, BatchMatMul, FusedDense, MatMulShard and ApplyMatMul.
inline constexpr char kComputeAttr[] = "compute";

enum class ComputeType {
  kF32,
  // Inputs of products are rounded to bf16 and summed in f32. All that is kept between steps, and
  // all else that is computed, stays f32. On a machine without instructions for bf16: f32.
  kBf16,
};

// Sets the attribute on all nodes that take it. A node that has it already keeps its value.
void SetCompute(ComputeType type, Graph* graph);

}  // namespace coxswain
