// All ops of the house.
#pragma once

#include "runtime/graph/op.h"

namespace coxswain {

// Registers every op and its kernels. To be called once per registry.
void RegisterAllOps(OpRegistry* registry);

}  // namespace coxswain
