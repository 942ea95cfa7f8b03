#include "coordinator/api/local_function.h"

#include <utility>

#include "kernels/compute.h"
#include "kernels/fuse_layers.h"
#include "runtime/base/status.h"
#include "runtime/graph/builder.h"

namespace coxswain {
namespace {

// Columns are arguments that are declared before they are asked for.
absl::StatusOr<graph::Function> Build(const std::string& name, const graph::OpRegistry* registry,
                                      absl::Span<const data::ColumnSpec> columns,
                                      const std::function<void(FunctionBuilder&)>& build) {
  FunctionBuilder builder(name, registry);
  for (const data::ColumnSpec& column : columns) {
    builder.Argument(column.name, column.type.dtype, column.type.shape);
  }
  build(builder);
  return builder.graph().Finish();
}

bool Uses(const graph::Function& function, int node) {
  for (const graph::Node& user : function.graph.nodes()) {
    for (const Output& input : user.inputs) {
      if (input.node == node) return true;
    }
  }
  for (const graph::Function::Result& result : function.results) {
    if (result.output.node == node) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<graph::Function> BuildLocalFunction(
    const std::string& name, const graph::OpRegistry* registry,
    absl::Span<const data::ColumnSpec> columns, ComputeType compute,
    const std::function<void(FunctionBuilder&)>& build) {
  ASSIGN_OR_RETURN(const graph::Function with_all, Build(name, registry, columns, build));
  std::vector<data::ColumnSpec> used;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (Uses(with_all, with_all.arguments[i].node)) used.push_back(columns[i]);
  }
  ASSIGN_OR_RETURN(const graph::Function function, Build(name, registry, used, build));
  graph::Function fused = kernels::FuseLayers(function);
  kernels::SetCompute(compute, /*same_on_any_threads=*/false, &fused.graph);
  fused.device = DeviceChoice::kCpu;
  return fused;
}

}  // namespace coxswain
