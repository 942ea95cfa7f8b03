// All ops.
#pragma once

#include "runtime/graph/op.h"

namespace coxswain {

// Registers every op and its kernels. Call it once per registry.
void RegisterAllOps(OpRegistry* registry);

}  // namespace coxswain
