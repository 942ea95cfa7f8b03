// A shape's tables, variables and function on a cluster, by the public API.
#pragma once

#include "absl/status/statusor.h"
#include "coxswain/strategy.h"
#include "tests/bench/step/shape.h"

namespace coxswain {

// Creates the state and registers the function of one step; it takes no argument and its result is
// the loss (0 for an empty step). `wire_dtype` is that of
// the tables and layers.
//
// Data costs neither side anything: kBatches batches are constants of the function, so they lie in
// each worker's memory before the first step, and a step picks one by a number drawn from (closure,
// step), which costs one row of a Gather per column. Nothing of it travels. Errors: what the
// strategy says.
absl::StatusOr<RemoteFunction> DefineStep(const StepShape& shape, ParameterServerStrategy* strategy,
                                          DType wire_dtype = DType::kF32,
                                          TableDevice tables = TableDevice::kCpu);

}  // namespace coxswain
