// A pass over a finished function, gradients included: the backward nodes of dense layers become
// ops that make their results in one pass.
//
//   ReluGrad(MatMul(g, w, transpose_b), y)  ->  dx of DenseInputGrad(g, w, y)
//   ReduceSum of that over axis 0           ->  its sum
//
// It runs where a function is planned, once; workers run what they are given, so a plan without it
// computes the same, to rounding.
#pragma once

#include "runtime/graph/graph.h"

namespace coxswain::kernels {

// `function` with fused nodes, or as it was when there is nothing to fuse. Names, arguments,
// results and targets stay. Only products are taken of which nothing but the ReLU's gradient is
// used, and that run on the same device.
graph::Function FuseLayers(const graph::Function& function);

}  // namespace coxswain::kernels
