// Functions that run in one piece in this process, without a cluster: the same builder, the same
// passes and the same kernels as on a cluster, so that both compute the same.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coxswain/function_builder.h"
#include "coxswain/tensor.h"
#include "runtime/data/batch.h"
#include "runtime/graph/graph.h"

namespace coxswain {

// `registry` outlives the function. `columns`: those that FunctionBuilder::Column finds; those of
// them that are used become the function's arguments, in this order and under these names. Handles
// of variables are anyone's: their shards are what graph::VariableAccess is asked for. `build` is
// called twice. Errors: InvalidArgument naming the node that is wrong.
absl::StatusOr<graph::Function> BuildLocalFunction(
    const std::string& name, const graph::OpRegistry* registry,
    absl::Span<const data::ColumnSpec> columns, ComputeType compute,
    const std::function<void(FunctionBuilder&)>& build);

}  // namespace coxswain
