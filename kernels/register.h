// All ops.
#pragma once

#include "runtime/graph/op.h"

namespace coxswain::kernels {

// Registers every op and its kernels. Call it once per registry.
void RegisterAllOps(graph::OpRegistry* registry);

}  // namespace coxswain::kernels
